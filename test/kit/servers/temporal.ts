import { randomBytes } from 'node:crypto'
import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { temporalProcess } from '../../../cli/services/temporal.ts'
import { removeThrowAway, throwAwayFolder } from '../../../cli/test/test-postgres.ts'
import { Supervisor } from '../../../workers/supervisor/supervisor.ts'

export interface TestTemporal {
  address: string
  /** Put before every queue name, so that test files share one server without meeting. */
  queuePrefix: string
}

/**
 * Call it once at the top level of a test file: the Temporal of the test run, with queues of its own. A file that is run alone,
 * without `./berth test`, starts a server in memory for itself.
 */
export function testTemporal(): Promise<TestTemporal> {
  const queuePrefix = `test-${randomBytes(4).toString('hex')}/`
  const shared = process.env.TEST_TEMPORAL_ADDRESS
  if (shared) return Promise.resolve({ address: shared, queuePrefix })
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  test.after.always('stop the test Temporal', async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  return startServer(supervisor).then(address => ({ address, queuePrefix }))
}

async function startServer(supervisor: Supervisor): Promise<string> {
  const port = await unusedPort()
  await supervisor.start(await temporalProcess({ folder: null, port, uiPort: null }, () => {}))
  return `127.0.0.1:${port}`
}
