import test from 'ava'
import { changesSince, sweepAppChanges } from '../../../db/apps/app-changes.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import * as apps from '../../../db/apps/apps.ts'
import { type Db, openDatabase } from '../../../db/database.ts'
import { changesRetainedMinutes } from '../../../policy/rounds.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase({ ownServer: true })

/** Some applications on a host of their own. */
async function someApps(count: number) {
  const { db } = await database
  const make = rows(db)
  const hostId = `h-${Math.random().toString(36).slice(2)}`
  await make.host(hostId, { memoryMb: 1_000_000 })
  const user = await make.user()
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const { app } = await make.app(user.id, { memoryMb: 256 }, { plans: plansOfMemory(1_000_000) })
    await db('apps').where({ id: app.id }).update({ host_id: hostId })
    ids.push(app.id)
  }
  return { db, hostId, ids }
}

/** A reader that remembers how far it is. */
function reader(db: Db, hostId: string | null = null) {
  let mark: string | null = null
  return async () => {
    const read = await changesSince(db, mark, hostId)
    mark = read.mark
    return read.changed && [...new Set(read.changed.map(({ id }) => id))].sort()
  }
}

const touch = (db: Db, id: string) =>
  db('apps')
    .where({ id })
    .update({ container_id: Math.random().toString(36) })

test.serial(
  'a reader without a mark learns that everything may have changed, and then reads changes of its host only',
  async t => {
    const { db, hostId, ids } = await someApps(2)
    const other = await someApps(1)
    const [read, all] = [reader(db, hostId), reader(db)]
    t.is(await read(), null)
    t.is(await all(), null)
    t.deepEqual(await read(), [])
    await touch(db, ids[0]!)
    await touch(db, other.ids[0]!)
    t.deepEqual(await read(), [ids[0]!])
    t.deepEqual(await all(), [ids[0]!, other.ids[0]!].sort())
    t.deepEqual(await read(), [])
    await apps.recordStats(db, ids[0]!, { cpu: 1 })
    await db('apps').update({ snapshot_due_at: new Date() })
    t.deepEqual(await read(), [], 'what no round looks at is no change')
  },
)

test.serial('a change whose transaction commits late is read, in spite of later commits and reads', async t => {
  const { db, hostId, ids } = await someApps(3)
  const [early, between, late] = ids as [string, string, string]
  const { url } = await database
  const slow = openDatabase({ url, pool: 1 })
  t.teardown(() => slow.destroy())
  const read = reader(db, hostId)
  await read()
  const held = await slow.transaction()
  await touch(held, early)
  await touch(db, between)
  t.deepEqual(await read(), [between])
  await touch(db, late)
  t.true((await read())!.includes(late))
  await held.commit()
  t.true((await read())!.includes(early), 'its number is lower than those that were read')
  t.deepEqual(await read(), [])
})

test.serial('a concurrent reader reads all transactions, in whatever order they commit', async t => {
  const { db, hostId, ids } = await someApps(40)
  const { url } = await database
  const writers = openDatabase({ url, pool: 8 })
  t.teardown(() => writers.destroy())
  const read = reader(db, hostId)
  await read()
  const seen = new Set<string>()
  let writing = true
  const reading = (async () => {
    for (let rounds = 0; writing && rounds < 10_000; rounds++) for (const id of (await read()) ?? []) seen.add(id)
  })()
  await Promise.all(
    ids.map((id, n) =>
      writers.transaction(async trx => {
        await touch(trx, id)
        await trx.raw('select pg_sleep(?)', [((n * 7) % 10) / 100])
      }),
    ),
  )
  writing = false
  await reading
  for (const id of (await read()) ?? []) seen.add(id)
  t.deepEqual([...seen].sort(), [...ids].sort())
})

test.serial("a deletion is reported with the application's name, a move to both hosts", async t => {
  const { db, hostId, ids } = await someApps(2)
  const other = await someApps(0)
  const [removed, moved] = ids as [string, string]
  const [read, there] = [reader(db, hostId), reader(db, other.hostId)]
  await read()
  await there()
  const { mark } = await changesSince(db, null)
  const { subdomain } = (await apps.loadApp(db, removed))!
  await removeApp(db, removed)
  t.deepEqual((await changesSince(db, mark)).changed, [{ id: removed, subdomain }])
  t.deepEqual(await read(), [removed])
  await db('apps').where({ id: moved }).update({ host_id: other.hostId })
  t.deepEqual(await read(), [moved])
  t.deepEqual(await there(), [moved])
})

test.serial('no mark is valid after a truncation, restore, crash or sweep of the database', async t => {
  const { db, hostId, ids } = await someApps(1)
  const read = reader(db, hostId)
  await read()
  t.deepEqual(await read(), [])

  await db.raw('truncate app_changes, app_change_epochs') // what a crash does to tables that are not logged
  t.is(await read(), null)
  t.deepEqual(await read(), [])

  const kept = (await db('apps').where({ id: ids[0]! }).first()) as object
  await db.raw('truncate apps cascade')
  t.is(await read(), null)
  await db('apps').insert(kept)
  t.deepEqual(await read(), [ids[0]!])

  const lagging = reader(db, hostId)
  await lagging()
  await touch(db, ids[0]!)
  t.is(await sweepAppChanges(db), 0)
  await db('app_changes').update({ at: new Date(Date.now() - changesRetainedMinutes * 60_000 - 1000) })
  t.true((await sweepAppChanges(db)) > 0)
  t.is(await sweepAppChanges(db), 0)
  t.is(await lagging(), null, 'what it has not read is deleted')
  await touch(db, ids[0]!)
  t.deepEqual(await lagging(), [ids[0]!])
})

test.serial('changes that a long transaction keeps unread are not swept', async t => {
  const { db, hostId, ids } = await someApps(2)
  const { url } = await database
  const slow = openDatabase({ url, pool: 1 })
  t.teardown(() => slow.destroy())
  const held = await slow.transaction()
  await touch(held, ids[0]!)
  const read = reader(db, hostId)
  await read()
  await touch(db, ids[1]!)
  await db('app_changes').update({ at: new Date(0) })
  await sweepAppChanges(db)
  t.deepEqual(await read(), [ids[1]!])
  await held.commit()
  t.deepEqual(await read(), [...ids].sort())
})

test.serial("changes from another server's backup, with future numbers, invalidate marks and are deleted", async t => {
  const { db, hostId, ids } = await someApps(1)
  const read = reader(db, hostId)
  await read()
  await db('app_changes').insert({ number: 10 ** 15, app_id: ids[0]!, host_id: hostId })
  t.is(await read(), null)
  t.deepEqual(await read(), [])
  await db('app_change_epochs').update({ swept: 10 ** 15 })
  t.is(await read(), null)
  await touch(db, ids[0]!)
  t.deepEqual(await read(), [ids[0]!])
  t.deepEqual(await read(), [])
})
