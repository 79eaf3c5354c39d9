import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import test from 'ava'
import { pino } from 'pino'
import { beginDowngrade, confirmDowngrade } from '../../../db/accounts/downgrades.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { relay } from '../../../policy/installation/relay.ts'
import { failuresInARow } from '../../../policy/rounds.ts'
import { DowngradeRelay } from '../../../workers/loops/downgrade-relay.ts'
import { temporalDowngrades } from '../../../workers/temporal/downgrades.ts'
import { workflowRun } from '../../../workers/temporal/workflow-runs.ts'
import type { Downgrades } from '../../../workflows/client.ts'
import { downgradeId, platformQueue } from '../../../workflows/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
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

/** Accounts whose step was confirmed a minute ago, and that nobody has taken. */
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
  const logged: { level: number; userId?: string }[] = []
  const log = pino({ level: 'info' }, { write: line => logged.push(JSON.parse(line)) })
  return { relay: new DowngradeRelay({ db, client: await clientOf(), downgrades: { wake }, log }), logged }
}

test.serial('a step that cannot be woken delays no others, and waits longer each time', async t => {
  const [broken, ...others] = await overdue(4)
  const tried: string[] = []
  const { relay: steps, logged } = await relayOf(async userId => {
    tried.push(userId)
    if (userId === broken) throw new Error('exceeded the limit of signals')
  })
  t.is(await steps.round(), 3)
  t.deepEqual(tried.toSorted(), [broken!, ...others].toSorted())
  t.deepEqual(
    logged.filter(({ level }) => level === 40).map(({ userId }) => userId),
    [broken],
  )
  t.is(await steps.round(), 0, 'all of them have some time now')
})

test.serial('while Temporal is down a round of steps ends early', async t => {
  await overdue(8)
  let tried = 0
  const { relay: steps } = await relayOf(async () => {
    tried++
    throw new Error('unavailable')
  })
  t.is(await steps.round(), 0)
  t.is(tried, failuresInARow)
})

test.serial('a step whose workflow task fails is started anew, and reported', async t => {
  t.timeout(180_000)
  const [userId] = await overdue(1)
  const { address, queuePrefix } = await temporal
  const native = await NativeConnection.connect({ address })
  t.teardown(() => native.close())
  const worker = await Worker.create({
    connection: native,
    taskQueue: platformQueue(queuePrefix),
    workflowsPath: fileURLToPath(new URL('./stuck-downgrade.workflow.ts', import.meta.url)),
  })
  await worker.runUntil(async () => {
    const client = await clientOf()
    const { wake } = temporalDowngrades(client, { queuePrefix })
    const run = () => workflowRun(client, downgradeId(userId!))
    await wake(userId!)
    const first = await run()
    // The worker leaves each attempt but the first to its time limit of 10 s.
    await comesTrue(async () => ((await run())?.failedTasks ?? 0) >= relay.stuckTasks)
    const { relay: steps, logged } = await relayOf(wake)
    t.is(await steps.round(), 1)
    const second = await run()
    t.is(second?.status, 'RUNNING')
    t.not(second?.runId, first?.runId)
    t.true(logged.some(({ level, userId: of }) => level === 50 && of === userId))
  })
})
