import { AsyncLocalStorage } from 'node:async_hooks'
import test from 'ava'
import { parseConfig } from '../../policy/config.ts'
import { openTemporal } from '../../workers/connect.ts'
import { wakeWorkflow } from '../../workers/temporal/workflow-wakes.ts'

test('a call to Temporal names its namespace and ends by its deadline, without a context of promises', async t => {
  let uses = 0
  const { run } = AsyncLocalStorage.prototype
  AsyncLocalStorage.prototype.run = function (this: AsyncLocalStorage<unknown>, ...given: Parameters<typeof run>) {
    uses += 1
    return run.apply(this, given)
  } as typeof run
  const client = openTemporal(parseConfig({ TEMPORAL_ADDRESS: '127.0.0.1:1' }, '/'), 100)
  try {
    const options = { workflowId: 'one', signal: 'wake', args: [] as [] }
    const error = await t.throwsAsync(wakeWorkflow(client, { queuePrefix: '' }, 'nothing', options))
    t.regex(`${error.cause ?? error}`, /UNAVAILABLE|DEADLINE/)
    t.is(uses, 0)
    await t.throwsAsync(client.withDeadline(Date.now() + 50, () => client.connection.workflowService.getSystemInfo({})))
    t.true(uses > 0, 'what the test looks for')
  } finally {
    AsyncLocalStorage.prototype.run = run
    await client.connection.close()
  }
})
