import { join } from 'node:path'
import test from 'ava'
import { findS3Programs } from '../../cli/test/clients/s3-programs.ts'
import { checkout } from '../kit/command.ts'
import { ownFolder } from '../kit/folders.ts'
import { bucket, testGateway, wires } from '../kit/s3/gateway.ts'
import { amazonEnvironment, programIn } from '../kit/s3/run-program.ts'

const { access } = testGateway()
const checks = join(checkout, 'test/kit/s3/boto3-checks.py')

for (const wire of wires)
  test.serial(`${wire}: boto3 stores, reads, lists, copies, signs and gets the errors that it expects`, async t => {
    const python = programIn(ownFolder(t), findS3Programs().python, amazonEnvironment(await access(wire)))
    const { stdout } = await python.run(checks, bucket, `${wire}/`)
    t.is(stdout.match(/^ok /gm)?.length, 7)
  })
