import { randomBytes } from 'node:crypto'
import test from 'ava'
import { findUserByEmail } from '../../db/accounts/accounts.ts'
import { type Db, migrate, migrateNext, openDatabase } from '../../db/database.ts'
import { listDeliveries } from '../../db/git/deliveries.ts'
import { chores, tidyRows } from '../../db/housekeeping.ts'
import { lockTables } from '../../db/migration-locks.ts'
import { retentionSettings } from '../../policy/retention.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { older, olderRows } from '../kit/rows/older-rows.ts'
import { rowCounts, upgradeWithRows } from '../kit/rows/upgrade.ts'
import { testDatabase } from '../kit/servers/database.ts'

const undo: (() => Promise<unknown>)[] = []
test.serial.after.always('drop the database', async () => {
  for (const step of undo.reverse()) await step()
})
const fresh = testDatabase()

/** So many pools of an empty database, without a table. */
async function emptyDatabase(pools = 1): Promise<Db[]> {
  const { db: admin, url: known } = await fresh
  const name = `test_${randomBytes(8).toString('hex')}`
  await admin.raw('create database ??', [name])
  undo.push(() => admin.raw('drop database if exists ?? with (force)', [name]))
  const url = new URL(known)
  url.pathname = `/${name}`
  return Array.from({ length: pools }, () => {
    const db = openDatabase({ url: url.href, pool: 2 })
    undo.push(() => db.destroy())
    return db
  })
}

/** What a schema consists of, in words of Postgres. */
async function schemaOf(db: Db): Promise<unknown[]> {
  const columns = await db('information_schema.columns')
    .where({ table_schema: 'public' })
    .orderBy(['table_name', 'ordinal_position'])
    .select('table_name', 'column_name', 'data_type', 'is_nullable', 'column_default')
  const { rows: constraints } = await db.raw(
    `select conrelid::regclass::text as name, pg_get_constraintdef(oid) as form from pg_constraint
      where connamespace = 'public'::regnamespace order by 1, 2`,
  )
  const indexes = await db('pg_indexes').where({ schemaname: 'public' }).orderBy('indexdef').pluck('indexdef')
  return [columns, constraints, indexes]
}

const upgraded = emptyDatabase().then(async ([db]) => ({ db: db!, wrong: await upgradeWithRows(db!) }))

test('every migration runs on a database with rows in every table, and loses none', async t => {
  const { db, wrong } = await upgraded
  t.deepEqual(wrong, [])
  const names = await db('knex_migrations').pluck('name')
  t.deepEqual(
    Object.keys(olderRows).filter(name => !names.includes(name)),
    [],
  )
  t.deepEqual(await schemaOf(db), await schemaOf((await fresh).db), 'and the schema is that of a new installation')
  await t.notThrowsAsync(migrate(db))
})

test('rows from before an upgrade are unchanged, except for what a migration adds', async t => {
  const { db } = await upgraded
  const emails = await db('users').orderBy('id').pluck('email')
  t.deepEqual(
    emails,
    ['ana@example.org', 'ben@example.org', 'BEN@example.org'],
    'two accounts of one address stay apart',
  )
  t.is((await findUserByEmail(db, 'ANA@example.org'))?.id, older.ana)
  const apps = await db('apps')
    .orderBy('id')
    .select('id', 'host_port', 'host_address', 'status', 'accepting', 'lost_with')
  const rest = { accepting: false, lost_with: null }
  t.deepEqual(apps, [
    { id: older.shop, host_port: null, host_address: null, status: 'running', ...rest },
    { id: older.cart, host_port: 20001, host_address: '10.0.0.1', status: 'running', ...rest },
    { id: older.idle, host_port: null, host_address: null, status: 'exited', ...rest },
  ])
  t.like(await db('operations').where({ id: older.waiting }).first(), {
    ...{ state: 'queued', retry_of: older.pushed, claim: null, claim_step: 0, claims_lost: [], end_before: null },
  })
  t.like(await db('api_keys').where({ id: 'k1' }).first(), { scopes: null, prefixes: null, granted_to: null })
  const deliveries = await listDeliveries(db, older.shop)
  t.deepEqual(deliveries.map(({ id, verdict }) => [id, verdict]).sort(), [
    ['again', 'ignored'],
    ['first', 'queued'],
  ])
})

test('each migration is committed alone, also by two processes that migrate at once', async t => {
  const [one, other] = await emptyDatabase(2)
  const { rows: last } = await (await fresh).db.raw('select name, xmin::text as written from knex_migrations')
  t.is(new Set(last.map(({ written }: { written: string }) => written)).size, last.length)
  await one!.migrate.up()
  await Promise.all([
    migrate(one!).then(async () => t.is((await other!.migrate.list())[1].length, 0)),
    migrate(other!).then(async () => t.is((await one!.migrate.list())[1].length, 0)),
  ])
  t.is(Number((await one!('knex_migrations').count())[0]!.count), last.length)
})

test('indexes of large tables are built while others write, and again after a build that ended midway', async t => {
  const [db, others] = await emptyDatabase(2)
  const [, behind] = await db!.migrate.list()
  const last = behind.findIndex((file: string) => file.startsWith('089-'))
  for (let n = 0; n < last; n++) await migrateNext(db!)
  const entry = { actor: 'ana', action: 'apps.start', result: 'success' }
  const writer = await others!.transaction()
  await writer('audit').insert(entry)
  const ended = t.throwsAsync(migrate(db!))
  const building = async () =>
    (
      await others!.raw(`select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like 'create index concurrently audit_kinds%'`)
    ).rows
  await comesTrue(async () => (await building()).length === 1)
  await others!('audit').insert(entry)
  await others!.raw('select pg_terminate_backend(?)', [(await building())[0].pid])
  await ended
  const valid = async () =>
    (
      await others!.raw(`select indexrelid::regclass::text as name, indisvalid as valid from pg_index
        where indexrelid in (to_regclass('audit_kinds'), to_regclass('mails_codes')) order by 1`)
    ).rows
  t.deepEqual(await valid(), [{ name: 'audit_kinds', valid: false }])
  await writer.commit()
  await migrate(db!)
  const both = ['audit_kinds', 'mails_codes'].map(name => ({ name, valid: true }))
  t.deepEqual(await valid(), both)
  t.is(Number((await others!('audit').count())[0]!.count), 2)
})

test('a schema of a newer version is refused', async t => {
  const [db] = await emptyDatabase()
  await db!.migrate.up()
  await db!('knex_migrations').insert({ name: '999-later', batch: 2, migration_time: new Date() })
  await t.throwsAsync(migrate(db!), { message: /999-later/ })
})

test('a migration whose locks cross those of a running transaction takes them once that has ended', async t => {
  const { db } = await fresh
  const running = await db.transaction()
  await running.raw(`set local deadlock_timeout = '10min'; lock table users in access exclusive mode`)
  const locked = db.transaction(trx =>
    lockTables(trx, [
      ['git_links', 'access exclusive'],
      ['users', 'access exclusive'],
    ]),
  )
  const migrated = t.notThrowsAsync(locked)
  await comesTrue(async () => {
    const { rows } = await db.raw(`select from pg_locks where relation = 'users'::regclass and not granted`)
    return rows.length > 0
  })
  await running.raw('lock table git_links in access exclusive mode')
  await running.rollback()
  await migrated
})

test('housekeeping works on rows from before an upgrade, and deletes only expired ones', async t => {
  const { db } = await upgraded
  const before = await rowCounts(db)
  const failed: unknown[] = []
  await tidyRows(db, chores(retentionSettings({})), (chore, error) => failed.push([chore, error]))
  t.deepEqual(failed, [])
  t.deepEqual(await rowCounts(db), before)
})
