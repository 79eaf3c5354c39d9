import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { beginDowngrade, confirmDowngrade } from '../../../db/accounts/downgrades.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { relay } from '../../../policy/installation/relay.ts'
import { downgradeRelay } from '../../../workers/loops/overdue-relay.ts'
import { temporalDowngrades } from '../../../workers/temporal/downgrades.ts'
import { workflowRun } from '../../../workers/temporal/workflow-runs.ts'
import type { Downgrades } from '../../../workflows/client.ts'
import { downgradeId } from '../../../workflows/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { logLines } from '../../kit/log-sink.ts'
import { endsRoundEarly, wakesAllButOne, withFailingWorker } from '../../kit/relays.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const database = testDatabase()
const temporal = testTemporal()
const connection = temporal.then(({ address }) => Connection.connect({ address }))
const clientOf = async () => new Client({ connection: await connection })
test.after.always('close the connection', async () => (await connection).close())
test.beforeEach(async () => {
  const { db } = await database
  await db('downgrades').delete()
})

/** Accounts whose step was confirmed a minute ago and has not been claimed. */
async function overdue(count: number): Promise<string[]> {
  const { db } = await database
  const users = await Promise.all(Array.from({ length: count }, () => rows(db).user('standard-6')))
  for (const { id } of users) {
    await beginDowngrade(db, plans, id)
    await confirmDowngrade(db, plans, id, () => true)
  }
  await db('downgrades').update({ confirmed_at: new Date(Date.now() - 60_000) })
  return users.map(({ id }) => id)
}

async function relayOf(wake: Downgrades['wake']) {
  const { db } = await database
  const { log, lines } = logLines<{ userId?: string }>()
  return { relay: downgradeRelay({ db, client: await clientOf(), downgrades: { wake }, log }), logged: lines }
}

test.serial('a step that cannot be woken delays no others, and waits longer each time', async t => {
  await wakesAllButOne(t, await overdue(4), 'userId', relayOf)
})

test.serial('while Temporal is down a round of steps ends early', async t => {
  await overdue(8)
  await endsRoundEarly(t, relayOf)
})

test.serial('a step whose workflow task fails is restarted, and reported', async t => {
  t.timeout(180_000)
  const [userId] = await overdue(1)
  const { address, queuePrefix } = await temporal
  const workflows = fileURLToPath(new URL('./stuck-downgrade.workflow.ts', import.meta.url))
  await withFailingWorker(t, { address, queuePrefix }, workflows, async () => {
    const client = await clientOf()
    const { wake } = temporalDowngrades(client, { queuePrefix })
    const run = () => workflowRun(client, downgradeId(userId!))
    await wake(userId!)
    const first = await run()
    t.is(relay.stuckTasks, 3)
    await comesTrue(async () => ((await run())?.failedTasks ?? 0) >= relay.stuckTasks)
    const { relay: steps, logged } = await relayOf(wake)
    t.is(await steps.round(), 1)
    const second = await run()
    t.is(second?.status, 'RUNNING')
    t.not(second?.runId, first?.runId)
    t.true(logged.some(({ level, userId: of }) => level === 50 && of === userId))
  })
})
