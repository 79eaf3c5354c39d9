import test from 'ava'
import { outputReader } from '../../cli/ava-output.ts'

/** Lines as ava 7 writes them where no terminal is. */
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

test('passed tests, failed tests and hooks, cut files and stray errors are counted', t => {
  const reader = outputReader()
  for (const text of output.split('\n')) reader.line(text)
  t.deepEqual(reader.count(), { passed: 2, failed: 4 })
})

test('a run that says nothing counts nothing', t => {
  t.deepEqual(outputReader().count(), { passed: 0, failed: 0 })
})
