import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import { laneState } from '../../../cli/ops/lane.ts'
import { holds } from '../../../cli/ops/ops-explanation.ts'
import { listWaitingTargets } from '../../../db/operations/operations.ts'
import { readOperationStory } from '../../../db/operations/operator.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { acceptance } from '../../../policy/acceptance.ts'
import { parseConfig } from '../../../policy/config.ts'
import { relay } from '../../../policy/installation/relay.ts'
import { LaneRelay, runRelay } from '../../../workers/loops/relay.ts'
import { laneRun, temporalLanes } from '../../../workers/temporal/lanes.ts'
import type { Lanes } from '../../../workflows/client.ts'
import { laneId } from '../../../workflows/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { logLines } from '../../kit/log-sink.ts'
import { endsRoundEarly, wakesAllButOne, withFailingWorker } from '../../kit/relays.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const database = testDatabase()
const temporal = testTemporal()

/** A relay that wakes lanes with `wake`, and the lines that it logs. */
async function relayOf(wake: Lanes['wake'], client?: Client) {
  const { db } = await database
  const { log, lines } = logLines<{ appId?: string }>()
  const options = { db, client: client ?? (await clientOf()), lanes: { wake }, databaseLanes: { wake }, log }
  return { relay: new LaneRelay(options), logged: lines }
}

async function applications(count: number) {
  const { db } = await database
  const make = rows(db)
  await make.host('h')
  const user = await make.user('enterprise-1')
  const apps = []
  for (let n = 0; n < count; n++) apps.push(await make.app(user.id, { memoryMb: 256 }))
  await db('operations').update({ created_at: new Date(Date.now() - 60_000) })
  return apps.map(({ app }) => app.id)
}

const connection = temporal.then(({ address }) => Connection.connect({ address }))
const clientOf = async () => new Client({ connection: await connection })
test.after.always('close the connection', async () => (await connection).close())

test.serial('a lane that cannot be woken delays no others, and waits longer each time', async t => {
  await wakesAllButOne(t, await applications(4), 'appId', relayOf)
})

test.serial('while Temporal is down a round ends early', async t => {
  await applications(8)
  await endsRoundEarly(t, relayOf)
})

test.serial('the lane of a database is woken by its own name', async t => {
  const { db } = await database
  const make = rows(db)
  await make.databaseHost('hosted')
  await db('operations').update({ state: 'success' })
  const user = await make.user()
  const ids = { app: (await make.app(user.id)).app.id, database: (await make.database(user.id)).database.id }
  await db('operations').update({ created_at: new Date(Date.now() - 60_000) })
  const { log, lines } = logLines<{ appId?: string; databaseId?: string }>()
  const woken: string[][] = []
  const lanesOf = (name: string): Lanes => ({ wake: async (id, ownerId) => void woken.push([name, id, ownerId]) })
  const client = await clientOf()
  const options = { db, client, lanes: lanesOf('app'), databaseLanes: lanesOf('database'), log }
  t.is(await new LaneRelay(options).round(), 2)
  t.deepEqual(woken.sort(), [
    ['app', ids.app, user.id],
    ['database', ids.database, user.id],
  ])
  t.deepEqual(
    lines.map(line => [line.appId, line.databaseId]),
    [
      [ids.app, undefined],
      [undefined, ids.database],
    ],
  )
  await db('operations').update({ state: 'success' })
})

test.serial(
  'targets without a running operation come first, oldest first; checked ones make room for the others',
  async t => {
    const { db } = await database
    await db('operations').update({ state: 'success' })
    // The oldest have the last names: the order is not that of the names.
    const targets = (name: string, count: number) =>
      Array.from({ length: count }, (_, n) => `${name}${String(999 - n).padStart(4, '0')}`)
    const fill = (ids: string[], state: string) =>
      db.raw(
        `insert into operations (id, target_id, kind, owner_id, actor, state, created_at, started_at)
       select md5(target), target, 'deploy', 'o', 'o', :state, now() - interval '1 hour', now() - interval '1 hour'
         from unnest(:ids::text[]) with ordinality as t (target, n) order by n`,
        { ids, state },
      )
    const [running, queued] = [targets('runs', 510), targets('waits', 3)]
    await fill(running, 'running')
    await fill(queued, 'queued')
    const seen = async (except: string[]) =>
      (await listWaitingTargets(db, { queuedSeconds: 1, runningSeconds: 5, except })).map(({ target_id }) => target_id)
    const first = await seen([])
    t.deepEqual(first, [...queued, ...running].slice(0, 500))
    t.deepEqual(await seen(first), running.slice(497))
    await db('operations')
      .whereIn('target_id', [...running, ...queued])
      .delete()
  },
)

test.serial('a running lane is woken again for a cancellation that it may not know, and for nothing else', async t => {
  const { db } = await database
  await db('operations').update({ state: 'success' })
  const ids = await applications(2)
  const running = { state: 'running', started_at: new Date(0), cancel_requested_at: null as Date | null }
  for (const [n, id] of ids.entries())
    await db('operations')
      .where({ target_id: id })
      .update({ ...running, cancel_requested_at: n === 0 ? new Date() : null })
  const client = await clientOf()
  const lanes = temporalLanes(client, { queuePrefix: 'nobody-works-here' })
  for (const id of ids) await lanes.wake(id, 'nobody')
  const woken: string[] = []
  const { relay: repeating } = await relayOf(async id => void woken.push(id), client)
  t.is(await repeating.round(), 1)
  t.deepEqual(woken, [ids[0]])
  for (const id of ids) await client.workflow.getHandle(laneId(id)).terminate()
  await db('operations').update({ state: 'success' })
})

test.serial('a lane whose workflow task fails is restarted, and reported', async t => {
  t.timeout(180_000)
  const { db } = await database
  await db('operations').update({ state: 'success' })
  const [appId, startedId] = await applications(2)
  const [running] = await db('operations')
    .where({ target_id: startedId })
    .update({ state: 'running', started_at: new Date(0) })
    .returning('id')
  const { address, queuePrefix } = await temporal
  const workflows = fileURLToPath(new URL('./stuck-lane.workflow.ts', import.meta.url))
  await withFailingWorker(t, { address, queuePrefix }, workflows, async () => {
    const client = await clientOf()
    const lanes = temporalLanes(client, { queuePrefix })
    const ids = [appId!, startedId!]
    for (const id of ids) await lanes.wake(id, 'nobody')
    const runs = async () => Promise.all(ids.map(id => laneRun(client, id)))
    const first = await runs()
    await comesTrue(async () => (await runs()).every(run => (run?.failedTasks ?? 0) >= relay.stuckTasks))
    const config = parseConfig({ TEMPORAL_ADDRESS: address, QUEUE_PREFIX: queuePrefix }, process.cwd())
    const story = (await readOperationStory(db, running.id, 9))!
    t.regex(
      holds(story, await laneState(config, { type: 'app', id: startedId! }), new Date()).join(),
      /Its lane is stuck: its workflow task failed \d+ times/,
    )
    const { relay: healing, logged } = await relayOf(lanes.wake, client)
    t.is(await healing.round(), 2)
    for (const [n, second] of (await runs()).entries()) {
      t.is(second?.status, 'RUNNING')
      t.not(second?.runId, first[n]?.runId)
      t.true(logged.some(({ level, appId: of }) => level === 50 && of === ids[n]))
    }
  })
})

test.serial('the relay undoes an unconfirmed request after its time, and no sooner', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h')
  const unconfirmed = async (secondsAgo: number) => {
    const { operationId } = await make.app((await make.user()).id, {}, { accepting: true })
    const created_at = db.raw('now() - make_interval(secs => ?)', [secondsAgo])
    await db('operations').where({ id: operationId }).update({ created_at })
    return async () => (await db('operations').where({ id: operationId }).first('state'))?.state
  }
  const late = await unconfirmed(acceptance.forgottenSeconds + 1)
  const young = await unconfirmed(acceptance.forgottenSeconds / 2)
  const ending = new AbortController()
  const lanes = { wake: async () => {} }
  const options = { db, client: await clientOf(), lanes, databaseLanes: lanes, log: pino({ level: 'silent' }) }
  const downgrades = { wake: async () => {} } as never
  const domains = { wake: async () => {} }
  const relaying = runRelay({ ...options, downgrades, domains, everySeconds: 0.05 }, ending.signal)
  await comesTrue(async () => (await late()) === undefined)
  ending.abort()
  await relaying
  t.is(await young(), 'accepting')
})

test('a repeated target waits twice as long each time, up to a maximum; one that was absent starts over', t => {
  let now = 0
  const backoff = new Backoff({ firstSeconds: 2, maxSeconds: 8, now: () => now })
  const waits = () => {
    backoff.seen('a')
    const from = now
    while (backoff.waiting().includes('a')) now += 1000
    backoff.forgetOthers(['a'])
    return (now - from) / 1000
  }
  t.deepEqual([waits(), waits(), waits(), waits()], [2, 4, 8, 8])
  backoff.forgetOthers([])
  t.is(waits(), 2)
})
