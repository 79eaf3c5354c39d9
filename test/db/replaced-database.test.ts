import { randomUUID } from 'node:crypto'
import test, { type ExecutionContext } from 'ava'
import pg from 'pg'
import { answeringPool, type Connection, identityQuery } from '../../db/connection.ts'
import { openDatabase, pinDatabase } from '../../db/database.ts'
import { advanceEpoch, claimInstallation } from '../../db/installation.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { testDatabase } from '../kit/servers/database.ts'

/** A process's pool of one connection, which keeps to what it has found, and what may become of the database behind its address. */
async function scene(t: ExecutionContext, database: ReturnType<typeof testDatabase>) {
  const { db, url } = await database
  await claimInstallation(db, 'a'.repeat(24))
  await advanceEpoch(db)
  await advanceEpoch(db)
  const applicationName = `process-${randomUUID()}`
  const pool = openDatabase({ url, pool: 1, applicationName })
  t.teardown(() => pool.destroy())
  const reasons: string[] = []
  const pidOf = async () => (await pool.raw('select pg_backend_pid() as pid')).rows[0].pid as number
  await pinDatabase(pool, why => reasons.push(why))
  return {
    db,
    reasons,
    write: () => pool('settings').insert({ name: 'written', value: '1' }),
    written: () => db('settings').where({ name: 'written' }).delete(),
    /** What opens a new connection: a restore ends those that are there. */
    restore: async (changes: () => Promise<unknown>) => {
      const before = await pidOf()
      await changes()
      await db.raw(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = ?`, [
        applicationName,
      ])
      // The next one is another one, or none.
      await comesTrue(() =>
        pidOf().then(
          pid => pid !== before,
          () => reasons.length > 0,
        ),
      )
    },
    row: (name: string, value: object) => () =>
      db('settings')
        .where({ name })
        .update({ value: JSON.stringify(value) }),
  }
}

const [replaced, older, emptied, going] = [testDatabase(), testDatabase(), testDatabase(), testDatabase()]
const [concurrent, both, used] = [testDatabase(), testDatabase(), testDatabase()]

/** A pool's connections, each opened by hand; `held` keeps back what the server answered about the database. */
async function opener(t: ExecutionContext, database: ReturnType<typeof testDatabase>) {
  const { db, url } = await database
  await claimInstallation(db, 'a'.repeat(24))
  await advanceEpoch(db)
  const reasons: string[] = []
  const { rows } = await db.raw(identityQuery)
  const pool = answeringPool({ belonging: { ...rows[0], onOther: (why: string) => reasons.push(why) } })
  const open = async (held?: { until: Promise<unknown>; arrived(): void }) => {
    const client = new pg.Client(url)
    await client.connect()
    t.teardown(() => client.end())
    const query = client.query.bind(client) as (...given: unknown[]) => unknown
    const slowly = (text: unknown, then: (...given: unknown[]) => void) =>
      query(text, async (...given: unknown[]) => {
        if (text === identityQuery) held?.arrived()
        if (text === identityQuery) await held?.until
        then(...given)
      })
    const connection = Object.assign(client, { query: slowly }) as unknown as Connection
    return new Promise<unknown>(done => pool.afterCreate(connection, done))
  }
  return { db, reasons, open }
}

test('a connection to another installation’s database writes nothing', async t => {
  const { write, written, restore, row, reasons } = await scene(t, replaced)
  await write()
  t.is(await written(), 1)
  await restore(row('installation', { id: 'b'.repeat(24), store: false }))
  await t.throwsAsync(write)
  t.is(await written(), 0)
  t.regex(reasons[0] ?? '', /was replaced while this process ran: it belongs to installation b+, and not to a+\./)
})

test('a connection to an older state of its database writes nothing', async t => {
  const { write, written, restore, row, reasons } = await scene(t, older)
  await restore(row('epoch', { n: 1 }))
  await t.throwsAsync(write)
  t.is(await written(), 0)
  t.regex(reasons[0] ?? '', /older than what this process has seen/)
})

test('a connection to a database without tables is not used', async t => {
  const { db, write, restore, reasons } = await scene(t, emptied)
  await restore(() => db.raw('alter table settings rename to forgotten'))
  await t.throwsAsync(write)
  t.regex(reasons[0] ?? '', /belongs to installation none/)
})

test('a new connection to the same database with a newer epoch is used', async t => {
  const { db, write, written, restore, reasons } = await scene(t, going)
  await restore(() => advanceEpoch(db))
  await write()
  t.is(await written(), 1)
  t.deepEqual(reasons, [])
})

test('of two connections that are opened concurrently the older epoch may be read later', async t => {
  const { db, reasons, open } = await opener(t, concurrent)
  let answer = () => {}
  const until = new Promise<void>(done => {
    answer = done
  })
  let slow: Promise<unknown> | undefined
  await new Promise<void>(arrived => {
    slow = open({ until, arrived })
  })
  await advanceEpoch(db)
  t.is(await open(), undefined)
  answer()
  t.is(await slow, undefined)
  t.deepEqual(reasons, [])
  await db('settings').where({ name: 'epoch' }).update({ value: '{"n":1}' })
  t.regex(String(await open()), /older than what this process has seen/, 'the newest of both is remembered')
})

test('a database that was replaced is reported once, however many connections find it', async t => {
  const { db, reasons, open } = await opener(t, both)
  await db('settings').where({ name: 'epoch' }).update({ value: '{"n":0}' })
  for (const refused of await Promise.all([open(), open()])) t.regex(String(refused), /older than/)
  t.is(reasons.length, 1)
})

test('a pool in constant use finds an older state of its database once its connections reach their maximum age', async t => {
  const { db, url } = await used
  await claimInstallation(db, 'a'.repeat(24))
  await advanceEpoch(db)
  await advanceEpoch(db)
  const pool = openDatabase({ url, pool: 1, lifeMs: 1000 })
  t.teardown(() => pool.destroy())
  const reasons: string[] = []
  await pinDatabase(pool, why => reasons.push(why))
  await db('settings').where({ name: 'epoch' }).update({ value: '{"n":1}' })
  await comesTrue(() =>
    pool.raw('select').then(
      () => false,
      () => reasons.length > 0,
    ),
  )
  t.regex(reasons[0] ?? '', /older than what this process has seen/)
})
