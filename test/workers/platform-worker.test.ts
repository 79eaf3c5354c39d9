import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { filesystemStore } from '../../activities/objects/filesystem.ts'
import { queueMail } from '../../db/accounts/mails.ts'
import { recordStarted } from '../../db/apps/apps.ts'
import * as operations from '../../db/operations/operations.ts'
import { parseConfig } from '../../policy/config.ts'
import { newId } from '../../policy/ids.ts'
import { upkeepKinds } from '../../policy/objects/blob-upkeep.ts'
import { openTemporal } from '../../workers/connect.ts'
import { removeSchedules, scheduleId } from '../../workers/loops/blob-schedules.ts'
import { startPlatformWorker } from '../../workers/platform-worker.ts'
import { temporalDatabaseLanes, temporalLanes } from '../../workers/temporal/lanes.ts'
import { laneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { fakeEdge } from '../kit/fakes/edge.ts'
import { health } from '../kit/platform/health.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { testTemporal } from '../kit/servers/temporal.ts'

// What each loop of the worker does has tests of its own; here each is seen to run in it, by what it does in its first round.

const undo: (() => Promise<unknown>)[] = []
test.serial.after.always('stop the worker', async () => {
  for (const step of undo.reverse()) await step()
})
const kit = start(testDatabase(), testTemporal())
test.before('start the worker', async t => {
  t.timeout(120_000)
  await kit
})

/** Something to do for every loop, and then a worker. */
async function start(database: ReturnType<typeof testDatabase>, temporal: ReturnType<typeof testTemporal>) {
  const { db, url } = await database
  const { address, queuePrefix } = await temporal
  const folder = mkdtempSync(join(tmpdir(), 'berth-worker-'))
  undo.push(async () => rmSync(folder, { recursive: true }))
  const settings = { BERTH_DATA: folder, DATABASE_URL: url, TEMPORAL_ADDRESS: address, QUEUE_PREFIX: queuePrefix }
  const config = parseConfig({ ...settings, BERTH_MASTER_KEY: '00'.repeat(32) }, folder)
  const client = openTemporal(config)
  undo.push(() => client.connection.close())

  const make = rows(db)
  await make.host('h1')
  await make.host('h2')
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  const settled = async (plan?: string) => {
    const user = await make.user(plan)
    const { app, operationId } = await make.app(user.id)
    await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
    return { userId: user.id, appId: app.id, host: `${app.subdomain}.${config.appsDomain}` }
  }
  const [forgotten, ended, unsaved, running] = [await settled(), await settled(), await settled(), await settled()]
  const session = { id: newId(), user_id: ended.userId, expires_at: new Date(0) }
  await db('sessions').insert(session)
  await queueMail(db, { userId: unsaved.userId, template: 'memory-out', fields: { app: 'shop', limitMb: 256 } })
  await db('users')
    .where({ id: ended.userId })
    .update({ plan_ends_at: new Date(Date.now() - 1000) })
  await db('apps')
    .where({ id: unsaved.appId })
    .update({ provisioned_at: new Date(Date.now() - 2 * 86_400_000), host_id: 'h2' })
  const at = { release: 1, containerId: 'c1', hostPort: 20_001, bootId: 'boot', startedAt: new Date() }
  await recordStarted(db, running.appId, at)
  // Its lane was never woken.
  await operations.enqueueOperation(db, {
    targetId: forgotten.appId,
    kind: 'stop',
    ownerId: forgotten.userId,
    actor: 'host-watch',
  })

  const edge = fakeEdge()
  const lanes = temporalLanes(client, { queuePrefix })
  const databaseLanes = temporalDatabaseLanes(client, { queuePrefix })
  const store = await filesystemStore(join(folder, 'objects'))
  const log = pino({ level: 'silent' })
  const workflowBundle = process.env.TEST_WORKFLOW_BUNDLE
  const worker = await startPlatformWorker({
    config,
    log,
    db,
    client,
    lanes,
    databaseLanes,
    edge,
    store,
    workflowBundle,
  })
  undo.push(async () => {
    await worker.stop()
    await removeSchedules({ client, queuePrefix })
    for (const { appId } of [forgotten, ended, unsaved])
      await client.workflow
        .getHandle(laneId(appId))
        .terminate()
        .catch(() => {})
  })
  return { db, client, address, queuePrefix, edge, folder, forgotten, ended, unsaved, running, session }
}

/** A loop that fails in its first round, as on a machine that is slow, comes again within a minute. */
const soon = 150

test('the worker wakes lanes whose wake-up was lost', async t => {
  const { db, forgotten } = await kit
  const claimed = () =>
    db('operations').where({ target_id: forgotten.appId, kind: 'stop' }).whereNot({ state: 'queued' })
  await t.notThrowsAsync(comesTrue(async () => (await claimed()).length === 1, soon))
})

test('the worker stops the applications of a plan that has ended, and notifies their owner', async t => {
  const { db, ended } = await kit
  const stop = () => db('operations').where({ target_id: ended.appId, actor: 'plan-expiry' }).first()
  await t.notThrowsAsync(comesTrue(async () => Boolean(await stop()), soon))
  t.truthy(await db('mails').where({ user_id: ended.userId, template: 'plan-ended' }).first())
})

test('the worker removes rows that are over', async t => {
  const { db, session } = await kit
  const left = () => db('sessions').where({ id: session.id }).first()
  await t.notThrowsAsync(comesTrue(async () => !(await left()), soon))
})

test('the worker keeps the schedules of blob storage', async t => {
  const { client, queuePrefix } = await kit
  const isThere = (kind: (typeof upkeepKinds)[number]) =>
    client.schedule
      .getHandle(scheduleId(queuePrefix, kind))
      .describe()
      .then(
        () => true,
        () => false,
      )
  await t.notThrowsAsync(comesTrue(async () => (await Promise.all(upkeepKinds.map(isThere))).every(Boolean), soon))
})

test('the worker takes the daily snapshots', async t => {
  const { db, unsaved } = await kit
  const snapshot = () => db('snapshots').where({ target_id: unsaved.appId, origin: 'automatic' }).first()
  await t.notThrowsAsync(comesTrue(async () => Boolean(await snapshot()), soon))
})

test('the worker keeps the routes of the proxy', async t => {
  const { edge, running } = await kit
  const leads = async () => (await edge.listRoutes()).some(({ host, port }) => host === running.host && port === 20_001)
  await t.notThrowsAsync(comesTrue(leads, soon))
})

test('the worker sends mail', async t => {
  const { db, folder, unsaved } = await kit
  const sent = async () => (await db('mails').where({ user_id: unsaved.userId }).first()).state === 'sent'
  await t.notThrowsAsync(comesTrue(sent, soon))
  t.true(readdirSync(join(folder, 'mail')).length > 0)
})

test('the health check of a worker looks for workers of this installation', async t => {
  const { address, queuePrefix } = await kit
  const asked = (prefix: string) => health('worker', { TEMPORAL_ADDRESS: address, QUEUE_PREFIX: prefix })
  await t.notThrowsAsync(comesTrue(async () => (await asked(queuePrefix)).code === 0))
  const { code, words } = await asked('of-nobody/')
  t.is(code, 1)
  t.regex(words, /^worker is not healthy: no worker polls of-nobody\/platform$/m)
  t.regex((await health('secretary', {})).words, /Name a process: api, worker, host, analytics, proxy/)
})
