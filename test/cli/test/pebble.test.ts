import test from 'ava'
import { needsPebble } from '../../../cli/test/pebble.ts'

test('the certificate authority of the tests is built before runs that use it', t => {
  for (const files of [[], ['test/activities/certificates/acme.test.ts'], ['test/**']])
    t.true(needsPebble(files), files.join())
  for (const files of [['test/lib/bytes.test.ts'], ['test/policy/**']]) t.false(needsPebble(files), files.join())
})
