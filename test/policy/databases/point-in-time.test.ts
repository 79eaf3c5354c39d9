import test from 'ava'
import {
  backupFor,
  type RestorableBackup,
  restorableRanges,
  type Serving,
  walFileName,
  walFileOf,
  walNumberAt,
} from '../../../policy/databases/point-in-time.ts'

/** A moment, in minutes. */
const at = (minutes: number): Date => new Date(Date.UTC(2026, 0, 1) + minutes * 60_000)
const now = at(100)

const backup = (
  id: string,
  from: number,
  to: number,
  { generation = 1, current = true }: Partial<RestorableBackup> = {},
): RestorableBackup => ({ id, generation, from: at(from), to: at(to), current })

const alone: Serving[] = [{ generation: 1, since: at(0), until: null }]
/** Restored at 40 and, from the volume before, again at 60. */
const restored: Serving[] = [
  { generation: 1, since: at(0), until: at(40) },
  { generation: 3, since: at(40), until: at(60) },
  { generation: 1, since: at(60), until: null },
]

test('names of WAL files are their timelines and numbers, and nothing else is one', t => {
  for (const [name, file] of [
    ['000000010000000000000001', { timeline: 1, number: 1 }],
    ['0000000A00000001000000FF', { timeline: 10, number: 511 }],
    ['00000001FFFFFFFF000000FF', { timeline: 1, number: 0xffffffff * 256 + 255 }],
  ] as const) {
    t.deepEqual(walFileOf(name), file)
    t.is(walFileName(file), name)
  }
  for (const name of [
    ...[
      '',
      '00000001000000000000001',
      '0000000100000000000000011',
      '00000001000000000000000a',
      '000000010000000000000100',
    ],
    ...['000000000000000000000001', '00000002.history', '000000010000000000000001.partial', '../000000010000000000001'],
  ])
    t.is(walFileOf(name), null, name)
  t.is(walNumberAt('0/3000060'), 3)
  t.is(walNumberAt('1/FF000000'), 511)
  for (const position of ['', '3000060', '0/', '0/xyz', '0/3000060 ']) t.throws(() => walNumberAt(position))
})

test('a base backup with all that follows restores every moment from its end until now', t => {
  const one = [backup('a', 10, 20)]
  t.deepEqual(restorableRanges(one, alone, now), [{ from: at(10), to: now }])
  t.deepEqual(restorableRanges([], alone, now), [])
  t.is(backupFor(at(9), one, alone, now), undefined)
  t.is(backupFor(at(10), one, alone, now)?.id, 'a')
  t.is(backupFor(now, one, alone, now)?.id, 'a')
  t.is(backupFor(at(101), one, alone, now), undefined, 'not the future')
  const two = [backup('a', 10, 20), backup('b', 50, 60)]
  t.deepEqual(restorableRanges(two, alone, now), [{ from: at(10), to: now }])
  t.is(backupFor(at(49), two, alone, now)?.id, 'a')
  t.is(backupFor(at(50), two, alone, now)?.id, 'b', 'the newest one is the shortest way')
})

test('a gap between two base backups cannot be restored', t => {
  const backups = [backup('a', 10, 20, { current: false }), backup('b', 50, 60)]
  t.deepEqual(restorableRanges(backups, alone, now), [
    { from: at(10), to: at(20) },
    { from: at(50), to: now },
  ])
  t.is(backupFor(at(20), backups, alone, now)?.id, 'a')
  t.is(backupFor(at(21), backups, alone, now), undefined)
  t.is(backupFor(at(49), backups, alone, now), undefined)
})

test('each moment is restored from the volume that served then', t => {
  const backups = [backup('a', 10, 20), backup('copy', 39, 39, { generation: 3 })]
  t.deepEqual(restorableRanges(backups, restored, now), [{ from: at(10), to: now }])
  t.is(backupFor(at(39), backups, restored, now)?.id, 'a', 'the copy did not serve yet')
  t.is(backupFor(at(40), backups, restored, now)?.id, 'copy', 'from the moment of the change on')
  t.is(backupFor(at(59), backups, restored, now)?.id, 'copy')
  t.is(backupFor(at(60), backups, restored, now)?.id, 'a', 'it serves again')
  const older = [backup('a', 10, 20), backup('b', 30, 35), backup('copy', 39, 39, { generation: 3 })]
  t.is(backupFor(at(60), older, restored, now)?.id, 'b', 'the newest of the volume that serves again')
  const late = [backup('a', 10, 20), backup('copy', 45, 45, { generation: 3 })]
  t.deepEqual(restorableRanges(late, restored, now), [
    { from: at(10), to: at(40) },
    { from: at(45), to: now },
  ])
  const lost = [backup('a', 10, 20, { current: false })]
  t.deepEqual(restorableRanges(lost, restored, now), [{ from: at(10), to: at(20) }], 'also not after the undo')
})
