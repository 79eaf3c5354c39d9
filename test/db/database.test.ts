import test from 'ava'
import { isUnavailable, openDatabase, sqlState } from '../../db/database.ts'
import { comesTrue } from '../kit/comes-true.ts'
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

test('the server rolls back a transaction that pauses for too long, and reports that it gave no answer', async t => {
  const { url, db } = await database
  const own = openDatabase({ url, pool: 1, idleTransactionMs: 100 })
  try {
    await db('settings').insert({ name: 'probe', value: '1' })
    const trx = await own.transaction()
    await trx('settings').where({ name: 'probe' }).update({ value: '2' })
    const [{ pid }] = (await trx.raw('select pg_backend_pid() as pid')).rows
    await comesTrue(async () => (await db('pg_stat_activity').where({ pid })).length === 0, 20)
    const error = await t.throwsAsync(trx('settings').where({ name: 'probe' }).first())
    t.true(isUnavailable(error))
    await t.throwsAsync(trx.commit().then(() => trx.executionPromise))
    await db('settings').where({ name: 'probe' }).update({ value: '3' })
  } finally {
    await own.destroy()
  }
})

test('a session of a process ends what pauses within a transaction, and a client that has vanished', async t => {
  const { url } = await database
  const own = openDatabase({ url, pool: 1 })
  try {
    const shown = async (name: string) => Object.values((await own.raw(`show ${name}`)).rows[0])[0]
    t.is(await shown('idle_in_transaction_session_timeout'), '10s')
    t.is(await shown('tcp_user_timeout'), '25000')
    const [idle, interval, count] = await Promise.all(
      ['idle', 'interval', 'count'].map(async name => Number(await shown(`tcp_keepalives_${name}`))),
    )
    t.is(idle! + interval! * count!, 25, 'seconds until an idle session of a vanished client ends')
  } finally {
    await own.destroy()
  }
})
