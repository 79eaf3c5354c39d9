import { Readable } from 'node:stream'
import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import { listReceiptLines, listReceipts } from '../../db/objects/blob-receipts.ts'
import * as segments from '../../db/objects/segments.ts'
import { parseConfig } from '../../policy/config.ts'
import { newId } from '../../policy/ids.ts'
import { type Upkeep, upkeep, upkeepKinds } from '../../policy/objects/blob-upkeep.ts'
import { objectId } from '../../policy/objects/object-names.ts'
import { ensureSchedules, removeSchedules, scheduleId } from '../../workers/loops/blob-schedules.ts'
import { startPlatformWorker } from '../../workers/platform-worker.ts'
import { temporalDatabaseLanes, temporalLanes } from '../../workers/temporal/lanes.ts'
import type { blobUpkeep } from '../../workflows/blob-upkeep.ts'
import { platformQueue } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { fakeEdge } from '../kit/fakes/edge.ts'
import { FailingStore } from '../kit/fakes/failing-store.ts'
import { linesBySubject, shortTimes, untidyAccount } from '../kit/objects/upkeep.ts'
import { keepRun } from '../kit/platform/histories.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { testTemporal } from '../kit/servers/temporal.ts'

const closers: (() => Promise<unknown>)[] = []
test.serial.after.always('stop the workers', async () => {
  for (const close of closers.reverse()) await close()
})
const kit = start(testDatabase(), testTemporal())
test.before('start the workers', async () => {
  await kit
})

/** Two workers on one queue, a real store, and limits of 0 that spare nothing. */
async function start(database: ReturnType<typeof testDatabase>, temporal: ReturnType<typeof testTemporal>) {
  const { db, url } = await database
  const { address, queuePrefix } = await temporal
  const config = parseConfig(
    { DATABASE_URL: url, TEMPORAL_ADDRESS: address, QUEUE_PREFIX: queuePrefix, BLOB_UPKEEP: 'off' },
    process.cwd(),
  )
  const client = new Client({ connection: await Connection.connect({ address }) })
  closers.push(() => client.connection.close())
  const store = await FailingStore.open()
  closers.push(() => store.close())
  /** Bodies that the store fails to delete. */
  const stuck = new Set<string>()
  const { delete: remove } = store
  store.delete = async id => {
    if (stuck.has(id)) throw new Error('The store does not answer.')
    await remove(id)
  }
  const log = pino({ level: 'silent' })
  const lanes = temporalLanes(client, { queuePrefix })
  const databaseLanes = temporalDatabaseLanes(client, { queuePrefix })
  const workflowBundle = process.env.TEST_WORKFLOW_BUNDLE
  const parts = {
    config,
    log,
    db,
    client,
    lanes,
    databaseLanes,
    edge: fakeEdge(),
    store,
    workflowBundle,
    times: shortTimes,
  }
  for (const worker of [await startPlatformWorker(parts), await startPlatformWorker(parts)])
    closers.push(() => worker.stop())
  const begin = (kind: Upkeep) =>
    client.workflow.start<typeof blobUpkeep>('blobUpkeep', {
      workflowId: `blob-test/${newId()}`,
      taskQueue: platformQueue(queuePrefix),
      args: [kind],
    })
  return { db, client, parts, store, stuck, queuePrefix, begin }
}

test.serial('every kind works once, and its receipt lists what was removed, why, and the check', async t => {
  const { db, client, store, begin } = await kit
  const { ownerId, name, uploads, bodies } = await untidyAccount(db, store, 3)
  for (const kind of upkeepKinds) {
    const run = await begin(kind)
    await run.result()
    await keepRun(client, `blob-${kind}`, run.workflowId)
  }
  t.deepEqual(await db('objects').where({ owner_id: ownerId }).pluck('key'), ['kept.txt'])
  t.deepEqual(await db('uploads').whereIn('id', uploads).distinct().pluck('state'), ['aborted'])
  for (const id of bodies) t.is(await store.head(id), null)
  const receipts = await listReceipts(db, { idle: true, limit: 100 })
  t.deepEqual(receipts.map(({ kind }) => kind).sort(), [...upkeepKinds].sort())
  t.true(receipts.every(({ ended_at, failure, unproved }) => ended_at !== null && failure === null && unproved === 0))
  const reported = async (kind: Upkeep) => {
    const receipt = receipts.find(receipt => receipt.kind === kind)
    return (await listReceiptLines(db, receipt!.id, 100)).map(({ subject, proof }) => [subject, proof]).sort()
  }
  const three = ['00000', '00001', '00002']
  t.deepEqual(
    await reported('expiry'),
    three.map(n => [objectId(name(`expired/${n}`)), 'no such object']),
  )
  t.deepEqual(
    await reported('rules'),
    three.map(n => [objectId(name(`logs/${n}`)), 'no such object']),
  )
  t.deepEqual(await reported('reclaim'), uploads.map(id => [id, 'not open, without parts']).sort())
  const swept = new Map((await reported('sweep')) as [string, string][])
  for (const id of bodies) t.is(swept.get(id), 'HEAD: absent')
  t.deepEqual(await reported('recount'), [])
})

test.serial('two workers and ten concurrent runs remove everything once', async t => {
  const { db, store, begin } = await kit
  const { name, uploads, bodies } = await untidyAccount(db, store, 40)
  const kinds = Array.from({ length: 12 }, (_, n) => (['expiry', 'rules', 'sweep', 'reclaim'] as const)[n % 4]!)
  const runs = await Promise.all(kinds.map(begin))
  await Promise.all(runs.map(run => run.result()))
  const numbers = Array.from({ length: 40 }, (_, n) => String(n).padStart(5, '0'))
  const objects = ['expired', 'logs'].flatMap(folder => numbers.map(n => objectId(name(`${folder}/${n}`))))
  const subjects = [...objects, ...uploads, ...bodies]
  const lines = await linesBySubject(db, subjects)
  t.deepEqual(
    subjects.filter(subject => lines.get(subject) !== 1),
    [],
  )
})

test.serial('a cancelled run is recorded in its receipt, and the next one continues', async t => {
  const { db, client, store, stuck, begin } = await kit
  const id = await segments.allocateSegment(db)
  await store.put(id, Readable.from('x'))
  stuck.add(id)
  const run = await begin('sweep')
  await comesTrue(async () => {
    const { raw } = await run.describe()
    return raw.pendingActivities?.some(({ attempt, lastFailure }) => (attempt ?? 0) > 1 || lastFailure) ?? false
  })
  await run.cancel()
  await t.throwsAsync(run.result())
  await keepRun(client, 'blob-cancelled', run.workflowId)
  const [receipt] = await listReceipts(db, { kind: 'sweep', idle: false, limit: 1 })
  t.like(receipt, { failure: 'It was cancelled.' })
  t.is((await db('segments').where({ id }).first()).state, 'dying')
  stuck.delete(id)
  await (await begin('sweep')).result()
  t.is(await store.head(id), null)
  t.is(await db('segments').where({ id }).first(), undefined)
})

test.serial('schedules are created, created again when they are lost, updated, and removed', async t => {
  const { client, queuePrefix } = await kit
  const known = new Set<Upkeep>()
  const intervals = async () =>
    Object.fromEntries(
      await Promise.all(
        upkeepKinds.map(async kind => {
          const { spec, policies } = await client.schedule.getHandle(scheduleId(queuePrefix, kind)).describe()
          return [kind, [Number(spec.intervals?.[0]?.every) / 1000, policies.overlap, policies.catchupWindow]]
        }),
      ),
    )
  const wanted = Object.fromEntries(upkeepKinds.map(kind => [kind, [upkeep[kind].everySeconds, 'SKIP', 60_000]]))
  await ensureSchedules({ client, queuePrefix }, known)
  t.deepEqual(await intervals(), wanted)
  const handle = client.schedule.getHandle(scheduleId(queuePrefix, 'expiry'))
  await handle.delete()
  await ensureSchedules({ client, queuePrefix }, known)
  t.deepEqual(await intervals(), wanted)
  await handle.update(plan => ({ ...plan, spec: { intervals: [{ every: '3h' }] } }))
  await ensureSchedules({ client, queuePrefix })
  t.deepEqual(await intervals(), wanted)
  await removeSchedules({ client, queuePrefix })
  await removeSchedules({ client, queuePrefix })
  await t.throwsAsync(handle.describe())
})

test.serial('a worker maintains the schedules, and removes them where upkeep is off', async t => {
  const { client, parts, queuePrefix } = await kit
  const own = `${queuePrefix}own/`
  const there = async () => {
    const found = upkeepKinds.map(kind => client.schedule.getHandle(scheduleId(own, kind)).describe())
    return (await Promise.allSettled(found)).filter(({ status }) => status === 'fulfilled').length
  }
  for (const [upkeep, count] of [
    [true, upkeepKinds.length],
    [false, 0],
  ] as const) {
    const config = { ...parts.config, queuePrefix: own, blob: { ...parts.config.blob, upkeep } }
    const worker = await startPlatformWorker({ ...parts, config })
    try {
      await comesTrue(async () => (await there()) === count)
    } finally {
      await worker.stop()
    }
  }
  t.is(await there(), 0)
})

test.serial('a schedule runs its kind of upkeep', async t => {
  const { db, client, store, queuePrefix } = await kit
  const { ownerId } = await untidyAccount(db, store, 1)
  await ensureSchedules({ client, queuePrefix })
  try {
    for (const kind of ['expiry', 'rules'] as const)
      await client.schedule.getHandle(scheduleId(queuePrefix, kind)).trigger()
    await comesTrue(async () => (await db('objects').where({ owner_id: ownerId }).pluck('key')).length === 1)
  } finally {
    await removeSchedules({ client, queuePrefix })
  }
  t.pass()
})
