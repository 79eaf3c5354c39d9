import test from 'ava'
import { pino } from 'pino'
import {
  drillHost,
  listDrills,
  listDueDrills,
  recordDrill,
  sweepDrills,
} from '../../../db/databases/database-drills.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import * as operations from '../../../db/operations/operations.ts'
import { parseConfig } from '../../../policy/config.ts'
import type { DrillOutcome } from '../../../policy/databases/drills.ts'
import { newVersionId } from '../../../policy/ids.ts'
import { type DrillsOptions, requestDrills, requestDueDrills } from '../../../workers/loops/database-drills.ts'
import { makeDatabase } from '../../kit/rows/databases.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })
const { sealKeys: keys } = parseConfig({ BERTH_MASTER_KEY: '00'.repeat(32) }, '/')

test.beforeEach(async () => {
  const { db } = await database
  await db.raw('truncate users, hosts, databases, operations, snapshots, database_drills cascade')
  await rows(db).databaseHost('h1', { memoryMb: 65_536 })
})

async function account() {
  const { db } = await database
  return rows(db).user()
}

/** A database with a snapshot. */
async function rented(owner: { id: string }, { withSnapshot = true } = {}): Promise<string> {
  const { db } = await database
  const { id } = await makeDatabase(db, keys, owner.id)
  const { id: operationId } = await operations.enqueueOperation(db, {
    ...({ targetType: 'database', targetId: id, kind: 'snapshot', ownerId: owner.id, actor: owner.id } as const),
  })
  await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
  if (withSnapshot)
    await db('snapshots').insert({
      ...{ id: newVersionId(), target_type: 'database', target_id: id, owner_id: owner.id, operation_id: operationId },
      ...{ name: 'x', runtime: 'redis', origin: 'manual', state: 'good', contents: 'c'.repeat(64) },
    })
  return id
}

const woken: string[] = []

async function round(more: Partial<DrillsOptions> = {}): Promise<string[]> {
  const { db } = await database
  const databaseLanes = { wake: async (id: string) => void woken.push(id) }
  return requestDueDrills({ db, databaseLanes, log, everyDays: 7, diskMbPer256Mb: 10, ...more })
}

const drillOf = async (id: string) =>
  (await database).db('operations').where({ target_id: id, kind: 'drill' }).orderBy('seq', 'desc').first()

/** Ends the drill of a database. */
async function end(id: string, outcome: DrillOutcome | null): Promise<void> {
  const { db } = await database
  const { id: operationId } = await drillOf(id)
  await db('operations').where({ id: operationId }).update({ state: 'running', started_at: new Date() })
  if (outcome)
    await recordDrill(db, operationId, {
      host_id: 'h1',
      outcome,
      code: outcome === 'failed' ? 'SNAPSHOT_CORRUPT' : null,
      reason: outcome === 'good' ? null : 'Why.',
      digest: null,
    })
  await operations.finishOperation(db, operationId, { state: outcome === 'good' ? 'success' : 'error' })
}

async function pass(days: number): Promise<void> {
  const { db } = await database
  await db.raw('update database_drills set ended_at = ended_at - make_interval(secs => ?)', [days * 86_400])
  await db.raw('update databases set drill_after = drill_after - make_interval(secs => ?)', [days * 86_400])
}

test.serial('a host runs one drill at a time, the next account before the second database of the first', async t => {
  const [ana, ben] = [await account(), await account()]
  const [first, second] = [await rented(ana), await rented(ana)]
  const other = await rented(ben)
  await rented(ben, { withSnapshot: false })
  t.deepEqual(await round(), [first])
  t.deepEqual(woken.splice(0), [first])
  t.like(await drillOf(first), { actor: 'platform', state: 'queued', owner_id: ana.id })
  t.deepEqual((await drillOf(first)).input.drillHost, 'h1')
  t.deepEqual(await round(), [])
  await end(first, 'good')
  t.deepEqual(await round(), [other])
  await end(other, 'good')
  t.deepEqual(await round(), [second])
  await end(second, 'good')
  t.deepEqual(await round(), [])
})

test.serial(
  'a good drill counts for the days of the setting; what failed, or showed nothing, is tried again after a day',
  async t => {
    const id = await rented(await account())
    t.deepEqual(await round(), [id])
    await end(id, 'good')
    await pass(6)
    t.deepEqual(await round(), [])
    await pass(2)
    t.deepEqual(await round(), [id])
    for (const outcome of ['failed', 'prevented', null] as const) {
      await end(id, outcome)
      t.deepEqual(await round(), [], 'not in every round')
      await pass(1.01)
      t.deepEqual(await round(), [id])
    }
  },
)

test.serial('databases that are deleted, lost, or being restored wait; a failure of one holds up no other', async t => {
  const { db } = await database
  const [deleted, lost, restored, unprovisioned, well] = [
    await rented(await account()),
    await rented(await account()),
    await rented(await account()),
    await rented(await account()),
    await rented(await account()),
  ]
  await db('databases').where({ id: deleted }).update({ desired_state: 'deleted' })
  await db('databases').where({ id: lost }).update({ lost_with: 'h9' })
  await db('operations').where({ target_id: restored }).update({ kind: 'restore', state: 'running' })
  await db('databases').where({ id: unprovisioned }).update({ provisioned_at: null })
  const due = await listDueDrills(db, { everyDays: 7, limit: 9 })
  t.deepEqual(
    due.map(({ id }) => id),
    [well],
  )
  const wake = async () => {
    throw new Error('Temporal is away.')
  }
  t.deepEqual(await round({ databaseLanes: { wake } }), [well])
})

test.serial('a drill is done on another host with the image and room, else on that of the database', async t => {
  const { db } = await database
  const make = rows(db)
  const id = await rented(await account())
  await make.databaseHost('h2', { memoryMb: 4096 })
  await make.databaseHost('h3', { memoryMb: 8192 })
  await round()
  t.is((await drillOf(id)).input.drillHost, 'h3')
  const own = (await loadDatabase(db, id))!
  const host = (of: object) => ({
    ...{ id: 'h2', draining: false, reachable: true, memoryMb: 2000, diskMb: 2000, reservedMemoryMb: 0 },
    ...{ reservedDiskMb: 0, images: { [own.image]: 'ready' } },
    ...of,
  })
  t.is(drillHost([host({})], own, 10), 'h2')
  for (const of of [
    { draining: true },
    { reachable: false },
    { memoryMb: 1023 },
    { diskMb: 39 },
    { images: {} },
    { id: 'h1' },
  ])
    t.is(drillHost([host(of)], own, 10), 'h1', JSON.stringify(of))
})

test.serial('evidence is recorded once, and deleted after 400 days; with 0 days nothing is requested', async t => {
  const { db } = await database
  const id = await rented(await account())
  await requestDrills(
    { db, log, everyDays: 0, diskMbPer256Mb: 10, databaseLanes: { wake: async () => {} } },
    AbortSignal.timeout(60_000),
  )
  t.is(await drillOf(id), undefined)
  await round()
  await end(id, 'failed')
  const { id: operationId } = await drillOf(id)
  await recordDrill(db, operationId, { host_id: 'h2', outcome: 'good', code: null, reason: null, digest: null })
  t.like((await listDrills(db, { limit: 9 }))[0], { outcome: 'failed', host_id: 'h1' })
  await pass(399)
  t.is(await sweepDrills(db), 0)
  await pass(2)
  t.is(await sweepDrills(db), 1)
})
