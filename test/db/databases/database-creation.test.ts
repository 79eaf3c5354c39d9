import test from 'ava'
import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { adoptConfig } from '../../../db/apps/app-configuration.ts'
import { openDatabase } from '../../../db/database.ts'
import { removeDatabase, reserveMoreMemory } from '../../../db/databases/database-creation.ts'
import { findDatabase, listDatabases } from '../../../db/databases/databases.ts'
import * as hosts from '../../../db/hosts/hosts.ts'
import { defaultPlans, type Plans } from '../../../policy/accounts/plans.ts'
import { CodedError } from '../../../policy/errors.ts'
import { newId } from '../../../policy/ids.ts'
import { configFile, plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** Counts successes, and refusals by code. */
async function outcomes(attempts: Promise<unknown>[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const result of await Promise.allSettled(attempts)) {
    const code = result.status === 'rejected' && result.reason instanceof CodedError ? result.reason.code : undefined
    const name = code ?? (result.status === 'fulfilled' ? 'created' : String(result.reason))
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

let names = 0

/** A host of its own for databases, the only one that accepts anything. */
async function onlyHost(changes: Partial<hosts.HostRegistration> = {}) {
  const { db } = await database
  const make = rows(db)
  await db('hosts').update({ draining: true })
  const hostId = `host-${++names}`
  await make.databaseHost(hostId, changes)
  await db('hosts').where({ id: hostId }).update({ last_seen_at: '2100-01-01' })
  return { db, make, hostId, user: await make.user() }
}

test.serial('fifty concurrent creations never share a port, and never pass the plan', async t => {
  const { db, make, hostId, user } = await onlyHost({ memoryMb: 1_000_000 })
  const { url } = await database
  const wide = openDatabase({ url, pool: 50, statementTimeoutMs: 60_000 })
  t.teardown(() => wide.destroy())
  const others = await Promise.all(Array.from({ length: 5 }, () => make.user()))
  const { database: create } = rows(wide)
  const attempts = [
    ...Array.from({ length: 25 }, () => create(user.id)),
    ...others.flatMap(({ id }) => Array.from({ length: 5 }, () => create(id))),
  ]
  t.deepEqual(await outcomes(attempts), { created: 8 + 25, INSUFFICIENT_MEMORY: 17 })
  t.is(await usedMemoryMb(db, user.id), 4096)
  const ports: number[] = await db('databases').where({ host_id: hostId }).orderBy('port').pluck('port')
  t.deepEqual(
    ports,
    Array.from({ length: 33 }, (_, n) => 20_000 + n),
  )
  const uids = await db('databases').where({ host_id: hostId }).pluck('uid')
  t.is(new Set(uids).size, 33)
})

test.serial(
  'a database gets the host of its owner’s applications, if that has room; static ones need none',
  async t => {
    const { make, user, hostId, db } = await onlyHost()
    const { app: own } = await make.app(user.id)
    const other = await make.user()
    const { app: site } = await make.app(other.id, { language: 'static' })
    t.deepEqual([own.host_id, site.host_id], [hostId, hostId])
    const roomy = `host-${++names}`
    await make.databaseHost(roomy, { memoryMb: 1_000_000 })
    await db('hosts').where({ id: roomy }).update({ last_seen_at: '2100-01-01' })
    const placed = async (ownerId: string) => (await make.database(ownerId)).database.host_id
    t.is(await placed(user.id), hostId)
    t.is(await placed(other.id), roomy)
    await db('hosts').where({ id: hostId }).update({ memory_mb: 1024 })
    t.is(await placed(user.id), roomy, 'never refused for it')
  },
)

test.serial(
  'an application gets the host of its owner’s databases, if that has room; a static one needs none',
  async t => {
    const { make, user, hostId, db } = await onlyHost()
    await make.database(user.id)
    const other = await make.user()
    await make.database(other.id)
    const roomy = `host-${++names}`
    await make.databaseHost(roomy, { memoryMb: 1_000_000 })
    await db('hosts').where({ id: roomy }).update({ last_seen_at: '2100-01-01' })
    const placed = async (ownerId: string, config = {}) => (await make.app(ownerId, config)).app.host_id
    t.is(await placed(user.id), hostId)
    t.is(await placed(other.id, { language: 'static' }), roomy)
    t.is(await placed((await make.user()).id), roomy, 'databases of others count for nothing')
    await db('hosts').where({ id: hostId }).update({ memory_mb: 1024 })
    t.is(await placed(user.id), roomy, 'never refused for it')
  },
)

test.serial('databases and applications share the memory of a plan, and of a host, in either order', async t => {
  const { make, user } = await onlyHost({ memoryMb: 4096 })
  const plans = plansOfMemory(2048)
  const app = (memoryMb: number) => make.app(user.id, { memoryMb }, { plans })
  t.deepEqual(await outcomes([app(1024)]), { created: 1 })
  t.deepEqual(await outcomes([make.database(user.id, { plans, ramMb: 2048 })]), { INSUFFICIENT_MEMORY: 1 })
  t.deepEqual(await outcomes([make.database(user.id, { plans, ramMb: 1024 })]), { created: 1 })
  t.deepEqual(await outcomes([app(256)]), { INSUFFICIENT_MEMORY: 1 })
  const other = await make.user()
  t.deepEqual(await outcomes([make.app(other.id, { memoryMb: 4096 })]), { CLUSTER_SELECTION_FAILED: 1 })
  t.deepEqual(await outcomes([make.database(other.id, { ramMb: 4096 })]), { CLUSTER_SELECTION_FAILED: 1 })
  t.deepEqual(await outcomes([make.database(other.id, { ramMb: 2048 })]), { created: 1 })
})

test.serial('a database takes as much disk as an application of its memory', async t => {
  const { db, make, hostId, user } = await onlyHost({ diskMb: 100 })
  await make.database(user.id, { ramMb: 1024, diskMbPer256Mb: 20 })
  const { database: next } = make
  t.deepEqual(await outcomes([next(user.id, { ramMb: 512, diskMbPer256Mb: 20 })]), { CLUSTER_SELECTION_FAILED: 1 })
  const reserved = (await hosts.listReservations(db)).get(hostId)
  t.deepEqual(reserved, { apps: 0, databases: 1, memoryMb: 1024, diskUnits: 4 })
})

test.serial('a plan without databases is refused, by the plan of the moment', async t => {
  const { db, make } = await onlyHost()
  const ana = await make.user('hobby-2')
  const request = { plans: defaultPlans }
  t.deepEqual(await outcomes([make.database(ana.id, request)]), { UPGRADE_REQUIRED: 1 })
  await db('users').where({ id: ana.id }).update({ plan: 'standard-4' })
  t.deepEqual(await outcomes([make.database(ana.id, request)]), { created: 1 })
  await db('users')
    .where({ id: ana.id })
    .update({ plan_ends_at: new Date(0) })
  t.deepEqual(await outcomes([make.database(ana.id, request)]), { UPGRADE_REQUIRED: 1 })
})

test.serial('without a host with the image the answer says whether to try again, and else why', async t => {
  const { db, make, hostId, user } = await onlyHost()
  const images = async (states: object) =>
    db('hosts')
      .where({ id: hostId })
      .update({ database_images: JSON.stringify(states) })
  await images({})
  await t.throwsAsync(make.database(user.id), { code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
  await images({ 'berth/redis:8': 'No registry answers, and it cannot be made here.' })
  await t.throwsAsync(make.database(user.id), {
    code: 'CLUSTER_SELECTION_FAILED',
    message: 'No registry answers, and it cannot be made here.',
  })
  await images({ 'berth/redis:8': 'no', 'berth/redis-own:8': 'ready' })
  const { database: made } = await make.database(user.id, { images: ['berth/redis:8', 'berth/redis-own:8'] })
  t.is(made.image, 'berth/redis-own:8')
  await hosts.setDraining(db, hostId, true)
  await t.throwsAsync(make.database(user.id), { code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
  t.is((await listDatabases(db, user.id)).length, 1, 'a refusal leaves nothing')
  t.is((await db('operations').where({ owner_id: user.id })).length, 1)
})

test.serial('the port of a deleted database is given to another only when no other is free', async t => {
  const { make, db, user } = await onlyHost()
  const ports = { from: 21_000, to: 21_002 }
  const create = async () => (await make.database(user.id, { ports })).database
  const [first, second] = [await create(), await create()]
  t.deepEqual([first.port, second.port], [21_000, 21_001])
  await removeDatabase(db, first.id)
  t.is((await create()).port, 21_002)
  t.is((await create()).port, 21_000)
  await t.throwsAsync(create(), { code: 'CLUSTER_SELECTION_FAILED', message: /no free port/ })
  await removeDatabase(db, second.id)
  await db('database_changes').delete() // as some minutes later
  t.is((await create()).port, 21_001)
})

test.serial('a host without a free port is passed over, also by an account whose applications it has', async t => {
  const { make, db, user, hostId: full } = await onlyHost()
  const ports = { from: 22_000, to: 22_000 }
  await make.database(user.id, { ports })
  await make.app(user.id)
  await db('apps').where({ owner_id: user.id }).update({ host_id: full })
  const { hostId: other } = await onlyHost()
  await db('hosts').where({ id: full }).update({ draining: false })
  t.is((await make.database(user.id, { ports })).database.host_id, other)
  await t.throwsAsync(make.database(user.id, { ports }), { code: 'CLUSTER_SELECTION_FAILED', message: /no free port/ })
})

test.serial('two hosts use the same port', async t => {
  const { make, user } = await onlyHost()
  const { database: one } = await make.database(user.id)
  await onlyHost()
  const { database: two } = await make.database(user.id)
  t.not(two.host_id, one.host_id)
  t.is(two.port, one.port)
})

test.serial('a created database has its row and its operation, and other accounts do not find it', async t => {
  const { db, make, user, hostId } = await onlyHost()
  const { database: made, operationId } = await make.database(user.id, { name: 'sessions', ramMb: 4096 })
  t.like(await findDatabase(db, user.id, made.id), {
    ...{ owner_id: user.id, name: 'sessions', engine: 'redis', version: '8', image: 'berth/redis:8', host_id: hostId },
    ...{ ram_mb: 4096, reserved_mb: 4096, cpu: 2, status: 'created', desired_state: 'running', desired_if_kept: null },
    ...{ generation: 1, next_generation: 2, password_generation: 1, certificate: null, restarts: 0, restart_at: null },
  })
  t.like(await db('operations').where({ id: operationId }).first(), {
    ...{ target_type: 'database', target_id: made.id, kind: 'create', state: 'queued', owner_id: user.id },
  })
  t.is(await findDatabase(db, (await make.user()).id, made.id), undefined)
  await removeDatabase(db, made.id)
  await removeDatabase(db, made.id)
  t.is(await usedMemoryMb(db, user.id), 0)
  t.like(await db('operations').where({ id: operationId }).first(), {
    ...{ state: 'cancelled', code: 'DATABASE_NOT_FOUND' },
  })
})

test.serial('the databases of a forgotten host use no memory of their plan', async t => {
  const { db, make, hostId, user } = await onlyHost()
  const { database: made } = await make.database(user.id, { ramMb: 4096 })
  t.is(await usedMemoryMb(db, user.id), 4096)
  await db('hosts').where({ id: hostId }).update({ forgotten_at: new Date() })
  t.is(await usedMemoryMb(db, user.id), 0)
  const more = { database: made, ramMb: 8192, plans: plansOfMemory(65_536), diskMbPer256Mb: 10 }
  await t.throwsAsync(
    db.transaction(trx => reserveMoreMemory(trx, more)),
    { code: 'CLUSTER_UNAVAILABLE' },
  )
})

test.serial(
  'memory for a larger database is reserved immediately, and only what the plan and the host have',
  async t => {
    const { db, make, user } = await onlyHost({ memoryMb: 4096 })
    const { database: made } = await make.database(user.id)
    const reserve = (ramMb: number, plans: Plans = plansOfMemory(4096)) =>
      db.transaction(trx => reserveMoreMemory(trx, { database: made, ramMb, plans, diskMbPer256Mb: 10 }))
    await t.throwsAsync(reserve(4097), { code: 'INSUFFICIENT_MEMORY', message: /3584 MB left.* 3585 MB more/ })
    await t.throwsAsync(reserve(4097, plansOfMemory(65_536)), { code: 'INSUFFICIENT_MEMORY', message: /no room/ })
    await reserve(2048)
    await reserve(2048)
    await reserve(1024)
    t.is(await usedMemoryMb(db, user.id), 2048)
    t.is((await findDatabase(db, user.id, made.id))?.ram_mb, 512, 'it has it only once it runs with it')
    t.deepEqual(await outcomes([make.database(user.id, { ramMb: 2049 })]), { INSUFFICIENT_MEMORY: 1 })
    await t.throwsAsync(
      db.transaction(trx =>
        reserveMoreMemory(trx, { database: { id: newId() }, ramMb: 1, plans: defaultPlans, diskMbPer256Mb: 1 }),
      ),
      { code: 'DATABASE_NOT_FOUND' },
    )
  },
)

test.serial('a deploy that asks for more memory finds what databases have left', async t => {
  const { db, make, user } = await onlyHost()
  const { app, deploymentId } = await make.app(user.id, { memoryMb: 512 })
  await make.database(user.id, { ramMb: 3072 })
  const adopt = async (memoryMb: number) => {
    const config = JSON.stringify(configFile({ memoryMb, subdomain: app.subdomain }))
    await db('deployments').where({ id: deploymentId }).update({ config })
    await adoptConfig(db, { deploymentId, plans: plansOfMemory(4096), diskMbPer256Mb: 10 })
  }
  await t.throwsAsync(adopt(1025), { code: 'INSUFFICIENT_MEMORY' })
  await t.notThrowsAsync(adopt(1024))
})
