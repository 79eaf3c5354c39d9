import test from 'ava'
import { outputReader } from '../../../cli/test/ava-output.ts'

/** Lines as ava 7 prints them without a terminal. */
const output = `
  ✔ db › apps › one name is given once (197ms)
  ✔ policy › ids › an id has 24 characters
    ℹ a line that a test logged: ✔ not a test
  ✘ [fail]: api › limits › one more is refused
  ✘ [fail]: api › limits › before hook
  ✘ test/api/cut.test.ts exited with a non-zero exit code: 1
  ─

  api › limits › one more is refused

  Difference (- actual, + expected):

  - ✔ 1
  + 2

  Uncaught exception in test/api/late.test.ts

  2 tests passed
`

test('passed tests, failed tests and hooks, aborted files and stray errors are counted', t => {
  const reader = outputReader()
  for (const text of output.split('\n')) reader.line(text)
  t.deepEqual(reader.count(), { passed: 2, failed: 4 })
})

test('a run without output counts nothing', t => {
  t.deepEqual(outputReader().count(), { passed: 0, failed: 0 })
})

const timedOut = ['  ✘ Timed out while running tests', '  2 tests were pending in test/house.test.ts']
const whole = [
  'test/house.test.ts',
  'test/api/limits.test.ts',
  'test/api/cut.test.ts',
  'test/api/late.test.ts',
  'test/db/apps.test.ts',
]

test('a run of several files is counted by file', t => {
  const reader = outputReader(whole)
  for (const text of [...output.split('\n'), ...timedOut]) reader.line(text)
  t.deepEqual([...reader.byFile()].sort(), [
    ['', { passed: 1, failed: 0 }],
    ['test/api/cut.test.ts', { passed: 0, failed: 1 }],
    ['test/api/late.test.ts', { passed: 0, failed: 1 }],
    ['test/api/limits.test.ts', { passed: 0, failed: 2 }],
    ['test/db/apps.test.ts', { passed: 1, failed: 0 }],
    ['test/house.test.ts', { passed: 0, failed: 1 }],
  ])
})

test('titles are counted by file also when all files lie in one folder, which ava leaves out', t => {
  const reader = outputReader(['test/api/v2/apps.test.ts', 'test/api/limits.test.ts'])
  reader.line('  ✔ limits › one is allowed (2ms)')
  reader.line('  ✘ [fail]: v2 › apps › one is found')
  t.deepEqual(
    [...reader.byFile()],
    [
      ['test/api/limits.test.ts', { passed: 1, failed: 0 }],
      ['test/api/v2/apps.test.ts', { passed: 0, failed: 1 }],
    ],
  )
})

test('a file whose name begins with test- is counted, although ava leaves that out', t => {
  const reader = outputReader(['test/cli/test-postgres.test.ts', 'test/db/apps.test.ts'])
  reader.line('  ✔ cli › postgres › what a killed run has left is removed')
  t.deepEqual([...reader.byFile()], [['test/cli/test-postgres.test.ts', { passed: 1, failed: 0 }]])
})
