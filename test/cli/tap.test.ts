import test from 'ava'
import { tapReader } from '../../cli/tap.ts'

const output = `TAP version 13
ok 1 - house › imports go only where they may
not ok 2 - api › a name is changed once
  ---
    name: AssertionError
    message: Values are not equal
  ...
ok 3 - api › the next one

# /somewhere/broken.test.ts exited with a non-zero exit code: 1
not ok 4 - broken.test.ts exited with a non-zero exit code: 1
1..4
# tests 4
`

test('passed and failed tests are counted, and failures keep their details', t => {
  const reader = tapReader()
  const shown = output.split('\n').map(line => reader.line(line))
  t.deepEqual(reader.count(), { passed: 2, failed: 2 })
  t.true(shown.includes('✔ house › imports go only where they may'))
  t.true(shown.includes('✘ api › a name is changed once'))
  t.true(shown.includes('    message: Values are not equal'))
  t.false(shown.some(line => line?.startsWith('1..') || line?.startsWith('# tests')))
})

test('a test that passed adds no details', t => {
  const reader = tapReader()
  t.is(reader.line('ok 1 - fine'), '✔ fine')
  t.is(reader.line('  ---'), null)
  t.is(reader.line('  duration: 3'), null)
})
