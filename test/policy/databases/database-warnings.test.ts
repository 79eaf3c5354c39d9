import test from 'ava'
import { highInARow } from '../../../policy/apps/memory-alerts.ts'
import { memoryVerdict } from '../../../policy/databases/database-warnings.ts'
import { diskWarningLevel } from '../../../policy/databases/disk-levels.ts'

test('memory is high from 90 %, is warned of at the third sample in a row, and ends below 80 %', t => {
  const used = (usedBytes: number) => ({ usedBytes, limitBytes: 1000 })
  const rows = [
    [900, 1],
    [899, 0],
    [950, 1],
    [1000, 2],
    [2000, 3],
  ] as const
  let high = 0
  for (const [bytes, expected] of rows) {
    high = highInARow(high, bytes, used(bytes).limitBytes)
    t.is(high, expected, `${bytes}`)
  }
  t.is(memoryVerdict(used(950), 2, false), 'keep')
  t.is(memoryVerdict(used(950), 3, false), 'warn')
  t.is(memoryVerdict(used(950), 4, false), 'warn', 'when it could not be mailed before')
  t.is(memoryVerdict(used(950), 30, true), 'keep')
  t.is(memoryVerdict(used(800), 0, true), 'keep')
  t.is(memoryVerdict(used(799), 0, true), 'end')
  t.is(memoryVerdict(used(0), 0, false), 'keep')
})

test('a disk has levels at 85 and 95 %, which last until it is 5 points below', t => {
  const level = (used: number, warned?: number) => diskWarningLevel(used, 1000, warned)
  t.deepEqual(
    [0, 849, 850, 949, 950, 1000].map(used => level(used)),
    [0, 0, 1, 1, 2, 2],
  )
  t.deepEqual(
    [799, 800, 849, 900, 950].map(used => level(used, 1)),
    [0, 1, 1, 1, 2],
  )
  t.deepEqual(
    [799, 800, 899, 900, 949].map(used => level(used, 2)),
    [0, 1, 1, 2, 2],
  )
  t.is(diskWarningLevel(10, 0), 0, 'of a disk without a size')
})
