import test from 'ava'
import { sqlState } from '../../db/database.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

test('an error contains its statement, and never the values', async t => {
  const { db } = await database
  const error = await t.throwsAsync(db('users').insert({ id: 'geheim', email: 'geheim', nothing: 'geheim' }))
  t.regex(error?.message ?? '', /insert into "users"/)
  t.notRegex(`${error?.message}${error?.stack}`, /geheim/)
  t.is(sqlState(error), '42703')
})

test('a crash of Postgres empties only tables of counters, leases and changes that are read again', async t => {
  const { db } = await database
  const { rows } = await db.raw(
    `select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where relkind in ('r', 'p', 'm', 'S') and relpersistence = 'u' and nspname not like 'pg\\_%' order by relname`,
  )
  t.deepEqual(
    rows.map(({ relname }: { relname: string }) => relname),
    [
      ...['app_change_epochs', 'app_changes', 'blob_leases', 'database_change_epochs', 'database_changes'],
      ...['domain_change_epochs', 'domain_changes'],
      ...['rate_limits', 'realtime_listeners'],
    ],
  )
})

test('a cluster created by Berth sorts alike on every machine, and has checksums', async t => {
  const { db } = await database
  const { rows } = await db.raw(
    'select datlocprovider, datlocale, pg_encoding_to_char(encoding) as encoding from pg_database where datname = current_database()',
  )
  t.deepEqual(rows, [{ datlocprovider: 'b', datlocale: 'C.UTF-8', encoding: 'UTF8' }])
  t.deepEqual((await db.raw('show data_checksums')).rows, [{ data_checksums: 'on' }])
})
