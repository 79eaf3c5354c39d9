import test from 'ava'
import {
  type DiskSpace,
  diskGuard,
  diskVerdict,
  hasRoomForBallast,
  hasRoomToDump,
  isOutOfRoom,
  needsBallastToStart,
  usedShare,
} from '../../../policy/databases/disk-guard.ts'

const MB = 1024 * 1024
const space = (changes: Partial<DiskSpace>): DiskSpace => ({
  ...{ usedBytes: 500 * MB, totalBytes: 1000 * MB, freeBytes: 500 * MB, ballastBytes: diskGuard.ballastBytes },
  ...changes,
})
const used = (share: number) => space({ usedBytes: share * 1000 * MB })

test('writes end at 98 %, and are admitted again below 95 %', t => {
  const verdicts = (isReadOnly: boolean) =>
    [0, 0.9499, 0.95, 0.97, 0.9799, 0.98, 1, 1.03].map(share => diskVerdict(used(share), isReadOnly))
  const [keep, end, admit] = ['keep', 'end writes', 'admit writes'] as const
  t.deepEqual(verdicts(false), [keep, keep, keep, keep, keep, end, end, end])
  t.deepEqual(verdicts(true), [admit, admit, keep, keep, keep, keep, keep, keep])
  t.is(usedShare({ usedBytes: 1, totalBytes: 0 }), 1)
})

test('a ballast is made where it leaves as much again, unless it is whole', t => {
  const room = (freeMb: number, ballastMb: number) =>
    hasRoomForBallast(space({ freeBytes: freeMb * MB, ballastBytes: ballastMb * MB }))
  t.deepEqual([room(64, 0), room(63, 0), room(64, 31), room(1000, 32)], [true, false, true, false])
})

test('a dump next to the data fits below 95 % of the disk', t => {
  const room = (usedMb: number, bytesMb: number) => hasRoomToDump(space({ usedBytes: usedMb * MB }), bytesMb * MB)
  t.deepEqual([room(500, 449), room(500, 450), room(949, 0), room(980, 0)], [true, false, true, false])
})

test('an engine starts without the ballast when less than 24 MB are free, and lacks room when there is none either', t => {
  const at = (freeMb: number, ballastMb: number) => {
    const of = space({ freeBytes: freeMb * MB, ballastBytes: ballastMb * MB })
    return [needsBallastToStart(of), isOutOfRoom(of)]
  }
  t.deepEqual(
    [at(24, 32), at(23, 32), at(0, 0), at(24, 0)],
    [
      [false, false],
      [true, true],
      [false, true],
      [false, false],
    ],
  )
})
