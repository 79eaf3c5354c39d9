import test from 'ava'
import { transaction } from '../../../db/database.ts'
import { reserveMoreMemory } from '../../../db/databases/database-creation.ts'
import { recordDisk } from '../../../db/databases/database-disks.ts'
import { releaseUnusedMemory } from '../../../db/databases/databases.ts'
import * as hosts from '../../../db/hosts/hosts.ts'
import { readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const plans = plansOfMemory(4096)
const diskMbPer256Mb = 10

/** The only host that accepts anything, with disk for 5,120 MB of memory, and what a change of memory leaves of it. */
async function scene(hostId: string, diskMb = 200) {
  const { db } = await database
  const make = rows(db)
  await db('hosts').update({ draining: true })
  await make.databaseHost(hostId, { memoryMb: 1_000_000, diskMb })
  const { id: ownerId } = await make.user()
  return {
    ...{ db, make, ownerId },
    units: async () => (await hosts.listReservations(db)).get(hostId)?.diskUnits,
    app: (memoryMb: number) => make.app(ownerId, { memoryMb }, { plans, diskMbPer256Mb }),
    shrinkApp: (id: string, ramMb: number) => db('apps').where({ id }).update({ ram_mb: ramMb }),
    database: async (ramMb: number) => (await make.database(ownerId, { plans, ramMb, diskMbPer256Mb })).database,
    resize: (id: string, ramMb: number) =>
      transaction(db, async trx => {
        await reserveMoreMemory(trx, { database: { id }, ramMb, plans, diskMbPer256Mb })
        await trx('databases').where({ id }).update({ ram_mb: ramMb })
        await releaseUnusedMemory(trx, id)
      }),
    reserve: (id: string, ramMb: number) =>
      transaction(db, trx => reserveMoreMemory(trx, { database: { id }, ramMb, plans, diskMbPer256Mb })),
    serve: (id: string, generation: number, retired: number | null) =>
      db('databases')
        .where({ id })
        .update({ generation, retired_generation: retired, retired_until: retired && '2100-01-01' }),
  }
}

test.serial('an application that gives memory back keeps its disk reserved: a volume never shrinks', async t => {
  const { app, shrinkApp, units } = await scene('disk-apps')
  const { id } = (await app(4096)).app
  await shrinkApp(id, 512)
  t.is(await units(), 16)
  await t.throwsAsync(app(3072), { code: 'CLUSTER_SELECTION_FAILED' }, 'the plan has memory, the host has no disk')
  await app(1024)
  await shrinkApp(id, 2048)
  t.is(await units(), 20, 'what it takes back was reserved still')
})

test.serial('a database that gives memory back keeps its disk reserved, and takes it back without more', async t => {
  const { database: make, resize, units, app } = await scene('disk-databases')
  const { id } = await make(4096)
  for (const ramMb of [3072, 2048, 1024]) await resize(id, ramMb)
  t.is(await units(), 16)
  await t.throwsAsync(make(3072), { code: 'CLUSTER_SELECTION_FAILED' })
  await app(1024)
  await resize(id, 3072)
  t.is(await units(), 20)
  await t.throwsAsync(resize(id, 4352), { code: 'INSUFFICIENT_MEMORY' })
})

test.serial(
  'a change of size that failed before its volume grew leaves no disk reserved, and one after it does',
  async t => {
    const { db, database: make, reserve, units } = await scene('disk-failures')
    const { id } = await make(512)
    for (const grows of [false, true]) {
      await reserve(id, 2048)
      t.is(await units(), 8, 'while it may grow')
      if (grows) await recordDisk(db, id, 2048)
      await releaseUnusedMemory(db, id)
      t.is(await units(), grows ? 8 : 2)
    }
    await recordDisk(db, id, 1024)
    t.is(await units(), 8)
  },
)

test.serial(
  'the volume before a restore is reserved until its row gives it up, also when the restore is undone',
  async t => {
    const { db, database: make, resize, units, serve } = await scene('disk-restores')
    const { id } = await make(2048)
    await resize(id, 512)
    await serve(id, 3, 1)
    t.is(await units(), 8 + 8)
    await serve(id, 1, 3)
    t.is(await units(), 8 + 8)
    t.is((await readFactsOfDatabase(db, id))?.diskForMb, 2048, 'for which its copies are made')
    await db('databases')
      .where({ id })
      .update({ retired_until: new Date(0) })
    t.is(await units(), 8)
  },
)

test.serial('an account has disks for up to twice the memory of its plan, whatever it gives back', async t => {
  const { db, app, shrinkApp, database: make, resize, units } = await scene('disk-accounts', 1_000_000)
  const first = (await app(4096)).app
  await shrinkApp(first.id, 256)
  const { id } = await make(3840)
  await resize(id, 256)
  t.is(await units(), (2 * 4096 - 256) / 256)
  const message = /those of 7936 MB. Delete/
  await t.throwsAsync(app(512), { code: 'INSUFFICIENT_MEMORY', message })
  await t.throwsAsync(make(512), { code: 'INSUFFICIENT_MEMORY', message })
  await resize(id, 3584)
  await resize(id, 256)
  await app(256)
  t.is(await units(), (2 * 4096) / 256)
  await db('apps').where({ id: first.id }).delete()
  await app(2048)
  t.is(await units(), 15 + 1 + 8)
})

test.serial('a host whose disk is promised already has room for what needs none', async t => {
  const { db, database: make, resize } = await scene('disk-full')
  const { id } = await make(1024)
  await resize(id, 512)
  await db('hosts').where({ id: 'disk-full' }).update({ disk_mb: 10 })
  await resize(id, 1024)
  await t.throwsAsync(resize(id, 1280), { code: 'INSUFFICIENT_MEMORY', message: /no room/ })
})
