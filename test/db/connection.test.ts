import test from 'ava'
import { type Db, openDatabase, transaction } from '../../db/database.ts'
import { statement } from '../../db/statement.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { postgresLine } from '../kit/servers/postgres-line.ts'

const database = testDatabase()

/** A pool whose questions are given up after a second and a half. */
async function lined() {
  const { url } = await database
  const line = await postgresLine(url)
  const db = openDatabase({ url: line.url, pool: 4, statementTimeoutMs: 1000 })
  return { line, db }
}

const one = statement<{ one: number }>('test.one', 'select 1 as one')

const questions: [string, (db: Db) => Promise<unknown>][] = [
  ['the query builder', db => db('users').limit(1)],
  ['a raw query', db => db.raw('select 1')],
  ['a statement of the hot path', db => one(db, [])],
  ['a transaction', db => transaction(db, trx => trx('users').limit(1))],
]

for (const [name, ask] of questions)
  test(`a connection that falls silent is queried once, by ${name}: the next query has a fresh one`, async t => {
    const { line, db } = await lined()
    t.teardown(async () => {
      await db.destroy()
      await line.close()
    })
    // Three are open and idle when the line goes dead.
    await Promise.all([1, 2, 3].map(() => db.raw('select pg_sleep(0)')))
    const before = line.opened()
    line.silence()
    await t.throwsAsync(async () => ask(db), undefined, 'the first one fails')
    t.is(line.opened(), before, 'it was asked on a connection that was open')
    for (let n = 0; n < 6; n++) await ask(db)
    t.true(line.opened() > before)
  })

test('an error of the server leaves the connection in the pool', async t => {
  const { line, db } = await lined()
  t.teardown(async () => {
    await db.destroy()
    await line.close()
  })
  await db.raw('select 1')
  const before = line.opened()
  await t.throwsAsync(async () => db.raw('select 1/0'))
  // One that it ended for its time has no result, and an answer all the same.
  const cancelled = `do $$ begin raise exception 'canceling statement' using errcode = '57014'; end $$`
  await t.throwsAsync(async () => db.raw(cancelled), { code: '57014' })
  await db.raw('select 1')
  t.is(line.opened(), before)
})

test('a pool that cannot log in leaves no connection open: the server has them for others', async t => {
  const without = new URL((await database).url)
  without.password = ''
  const line = await postgresLine(without.href)
  const db = openDatabase({ url: line.url, pool: 4 })
  t.teardown(async () => {
    await db.destroy()
    await line.close()
  })
  const { cause } = await t.throwsAsync(async () => db.raw('select 1'))
  t.regex(String(cause), /password must be a string/)
  t.true(line.opened() > 1)
  await comesTrue(() => line.open() === 0, 10)
})
