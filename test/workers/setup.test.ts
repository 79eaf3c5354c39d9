import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import test from 'ava'
import { productArguments } from '../kit/product.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { testTemporal } from '../kit/servers/temporal.ts'

const database = testDatabase()
const temporal = testTemporal()

async function run(masterKey: string) {
  const env = {
    ...process.env,
    DATABASE_URL: (await database).url,
    TEMPORAL_ADDRESS: (await temporal).address,
    TEMPORAL_NAMESPACE: `setup-process-${process.pid}`,
    BERTH_MASTER_KEY: masterKey,
  }
  return promisify(execFile)(process.execPath, productArguments('workers/setup'), { env })
}

test.serial('the setup of an installation migrates, prepares Temporal and exits, and can be repeated', async t => {
  for (let turn = 0; turn < 2; turn++) {
    const { stdout } = await run('ab'.repeat(32))
    t.regex(stdout, /the schema is up to date[\s\S]*the namespace is ready/)
  }
})

test.serial('the setup refuses an invalid master key before it changes anything', async t => {
  await t.throwsAsync(run('secret'), { message: /BERTH_MASTER_KEY must be 32 bytes in hex/ })
})
