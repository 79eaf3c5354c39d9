import test from 'ava'
import { type Db, openDatabase } from '../../../db/database.ts'
import { databaseChangesSince, sweepDatabaseChanges } from '../../../db/databases/database-changes.ts'
import { removeDatabase } from '../../../db/databases/database-creation.ts'
import { listDatabaseMetrics, saveDatabaseMetrics } from '../../../db/databases/database-metrics.ts'
import * as databases from '../../../db/databases/databases.ts'
import { chores, tidyRows } from '../../../db/housekeeping.ts'
import { sealedColumns } from '../../../db/sealed-values.ts'
import { newId } from '../../../policy/ids.ts'
import { retentionSettings } from '../../../policy/retention.ts'
import { changesRetainedMinutes } from '../../../policy/rounds.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase({ ownServer: true })
const hour = 3600_000

let names = 0

/** A database on a host of its own. */
async function one() {
  const { db } = await database
  const make = rows(db)
  const hostId = `host-${++names}`
  await db('hosts').update({ draining: true })
  await make.databaseHost(hostId)
  const user = await make.user()
  const create = async () => (await make.database(user.id)).database
  const { id } = await create()
  return { db, hostId, user, create, id, row: async () => (await databases.loadDatabase(db, id))! }
}

const started = (containerId = 'c1') => ({ containerId, startedAt: new Date(), bootId: 'boot' })
const exit = { code: 137, oom: true, at: new Date() }

async function seenBy(db: Db, hostId: string, id: string) {
  return (await databases.listDatabasesOfHost(db, hostId, [id]))[0]!
}

test.serial('a start clears the end before it, and a stop the start; a deletion that runs is left alone', async t => {
  const { db, id, row } = await one()
  await databases.recordDatabaseStopped(db, id, exit)
  t.like(await row(), { status: 'exited', started_at: null, exit_code: 137, exit_oom: true })
  await db('databases').where({ id }).update({ restart_at: new Date(), restarts: 2 })
  await databases.recordDatabaseStarted(db, id, started())
  t.like(await row(), { status: 'running', container_id: 'c1', boot_id: 'boot', exit_code: null, exit_at: null })
  t.like(await row(), { restart_at: null, restarts: 2 })
  await databases.recordDatabaseStatus(db, id, 'deleting')
  await databases.recordDatabaseStarted(db, id, started('c2'))
  await databases.recordDatabaseStopped(db, id, exit)
  t.like(await row(), { status: 'deleting', container_id: 'c1' })
})

test.serial('the end of a run is recorded for that run only', async t => {
  const { db, id, hostId, row } = await one()
  await databases.recordDatabaseStarted(db, id, started())
  const seen = await seenBy(db, hostId, id)
  await databases.recordDatabaseStarted(db, id, started('c2'))
  t.false(await databases.recordDatabaseExit(db, seen, exit))
  t.is((await row()).status, 'running')
  t.true(await databases.recordDatabaseExit(db, await seenBy(db, hostId, id), exit))
  t.like(await row(), { status: 'exited', exit_oom: true, started_at: null })
})

test.serial('the first success stays the time of provisioning; name and statistics are replaced', async t => {
  const { db, id, row } = await one()
  await databases.recordDatabaseProvisioned(db, id)
  const { provisioned_at: first } = await row()
  await databases.recordDatabaseProvisioned(db, id)
  t.deepEqual((await row()).provisioned_at, first)
  await databases.renameDatabase(db, id, 'carts')
  await databases.recordDatabaseStats(db, id, { cpu: 1 })
  await databases.recordDatabaseDesired(db, id, 'stopped')
  t.like(await row(), { name: 'carts', last_stats: { cpu: 1 }, desired_state: 'stopped' })
})

test.serial('lists are of one account, or of one host, oldest first', async t => {
  const { db, user, hostId, create, id } = await one()
  const other = await one()
  await db('hosts').where({ id: other.hostId }).update({ draining: true })
  await db('hosts').where({ id: hostId }).update({ draining: false })
  const second = await create()
  t.deepEqual(
    (await databases.listDatabases(db, user.id)).map(row => row.id),
    [id, second.id],
  )
  const ofHost = await databases.listDatabasesOfHost(db, hostId)
  t.deepEqual(
    ofHost.map(row => row.id),
    [id, second.id],
  )
  t.false('last_stats' in ofHost[0]!)
  t.deepEqual(await databases.listDatabasesOfHost(db, hostId, [other.id]), [])
})

/** A reader that remembers how far it is. */
function reader(db: Db, hostId: string) {
  let mark: string | null = null
  return async () => {
    const read = await databaseChangesSince(db, mark, hostId)
    mark = read.mark
    return read.changed?.map(({ id }) => id).sort() ?? null
  }
}

test.serial('a reader without a mark learns that all may have changed, then what has changed on its host', async t => {
  const { db, hostId, create, id } = await one()
  const other = await one()
  const [read, there] = [reader(db, hostId), reader(db, other.hostId)]
  t.is(await read(), null)
  t.is(await there(), null)
  await databases.recordDatabaseStarted(db, id, started())
  t.deepEqual(await read(), [id])
  t.deepEqual(await there(), [])
  await databases.recordDatabaseStats(db, id, { cpu: 1 })
  await databases.renameDatabase(db, id, 'carts')
  t.deepEqual(await read(), [], 'what no round looks at is no change')
  await db('hosts').where({ id: hostId }).update({ draining: false })
  await db('hosts').where({ id: other.hostId }).update({ draining: true })
  const created = await create()
  await removeDatabase(db, id)
  t.deepEqual(await read(), [created.id, id].sort())
  for (const change of [
    { restart_at: new Date() },
    { generation: 2 },
    { ram_mb: 1024 },
    { desired_state: 'stopped' },
  ]) {
    await db('databases').where({ id: created.id }).update(change)
    t.deepEqual(await read(), [created.id], JSON.stringify(change))
  }
})

test.serial('a change that commits late is read, and marks are void after a sweep or a truncation', async t => {
  const { db, hostId, id } = await one()
  const { url } = await database
  const slow = openDatabase({ url, pool: 1 })
  t.teardown(() => slow.destroy())
  const read = reader(db, hostId)
  await read()
  const held = await slow.transaction()
  await databases.recordDatabaseStatus(held, id, 'starting')
  t.deepEqual(await read(), [])
  await held.commit()
  t.deepEqual(await read(), [id])

  const lagging = reader(db, hostId)
  await lagging()
  await databases.recordDatabaseStatus(db, id, 'exited')
  t.is(await sweepDatabaseChanges(db), 0)
  await db('database_changes').update({ at: new Date(Date.now() - changesRetainedMinutes * 60_000 - 1000) })
  t.true((await sweepDatabaseChanges(db)) > 0)
  t.is(await lagging(), null)
  await db.raw('truncate database_changes, database_change_epochs') // what a crash does to tables that are not logged
  t.is(await lagging(), null)
  t.deepEqual(await lagging(), [])
})

test.serial('points are stored once, shown for a day, and then removed, also with their database', async t => {
  const { db, id } = await one()
  const point = (databaseId: string, hoursAgo: number, cpu = 1) => ({
    ...{ databaseId, at: new Date(Date.now() - hoursAgo * hour), cpu, ram: 100, netIn: 2 ** 40, netOut: 1 },
  })
  const first = point(id, 1)
  await saveDatabaseMetrics(db, [])
  await saveDatabaseMetrics(db, [first, point(id, 2), point(id, 25), point(newId(), 1)])
  await saveDatabaseMetrics(db, [{ ...first, cpu: 9 }])
  const shown = await listDatabaseMetrics(db, id)
  t.deepEqual(
    shown.map(({ cpu, netIn }) => [cpu, netIn]),
    [
      [1, 2 ** 40],
      [1, 2 ** 40],
    ],
  )
  t.deepEqual(shown[0], first)
  await tidyRows(db, chores(retentionSettings({})), (name, error) => t.fail(`${name}: ${error}`))
  t.is((await db('database_metrics').where({ database_id: id })).length, 2)
  await removeDatabase(db, id)
  t.is((await db('database_metrics').where({ database_id: id })).length, 0)
})

test.serial('operations of deleted databases are removed after their time', async t => {
  const { db, id } = await one()
  await removeDatabase(db, id)
  const of = () => db('operations').where({ target_type: 'database', target_id: id })
  const tidy = () => tidyRows(db, chores(retentionSettings({})), (name, error) => t.fail(`${name}: ${error}`))
  await tidy()
  t.is((await of()).length, 1)
  await of().update({ finished_at: new Date(Date.now() - 181 * 24 * hour) })
  await tidy()
  t.is((await of()).length, 0)
})

test('every sealed column of databases is listed, so that a change of keys seals it anew', async t => {
  const { db } = await database
  const columns = await db('information_schema.columns')
    .where({ table_schema: 'public', data_type: 'bytea' })
    .where('column_name', 'like', '%\\_sealed')
    .select('table_name', 'column_name')
  const name = (table: string, column: string) => `${table}.${column}`
  t.deepEqual(
    columns.map(row => name(row.table_name, row.column_name)).sort(),
    sealedColumns.map(({ table, column }) => name(table, column)).sort(),
  )
})
