import test from 'ava'
import { needsS3Programs } from '../../../../cli/test/clients/s3-programs.ts'

test('the clients of S3 are installed for runs that use them', t => {
  for (const files of [
    [],
    ['test/s3-clients/restic.test.ts'],
    ['test/lib/bytes.test.ts', 'test/s3-clients/*'],
    ['test/**'],
  ])
    t.true(needsS3Programs(files), files.join())
  for (const files of [['test/api/s3/xml.test.ts'], ['test/cli/services/services.test.ts', 'test/lib/**']])
    t.false(needsS3Programs(files), files.join())
})
