import { randomBytes } from 'node:crypto'
import test, { type ExecutionContext } from 'ava'
import { awaitServerProcessEnd, CommitInDoubt, isCommitted, transactionName } from '../../db/commits-in-doubt.ts'
import { type ServerProcess, serverProcessQuery } from '../../db/connection.ts'
import { type Db, openDatabase, transaction } from '../../db/database.ts'
import { allowProcesses } from '../../db/process-role.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { postgresLine } from '../kit/servers/postgres-line.ts'

const database = testDatabase()
const login = `berth_test_${randomBytes(4).toString('hex')}`

/** A pool with the login of a process, over a line that can be cut or held. */
async function lined(t: ExecutionContext) {
  const { db: owner, url } = await database
  const address = new URL(url)
  Object.assign(address, { username: login, password: 'pass' })
  await allowProcesses(owner, address.href)
  const line = await postgresLine(address.href)
  const db = openDatabase({ url: line.url, pool: 3, statementTimeoutMs: 1000 })
  t.teardown(async () => {
    await db.destroy()
    await line.close()
  })
  return { owner, line, db }
}

let written = 0
const write = (db: Db, name: string) => transaction(db, trx => trx('settings').insert({ name, value: '1' }))
const isThere = async (db: Db, name: string) => (await db('settings').where({ name })).length === 1

for (const manner of ['cut', 'held'] as const)
  for (const loss of ['lost', 'answered'] as const) {
    const how = `${manner} ${loss === 'lost' ? 'before' : 'after'} the server has it`
    test.serial(`a COMMIT that is ${how}: the outcome of the transaction is found`, async t => {
      const { owner, line, db } = await lined(t)
      const name = `doubt-${++written}`
      const sprung = line.trap({ at: /COMMIT;/, after: /insert into "settings"/, manner, loss })
      const [outcome] = await Promise.allSettled([write(db, name), sprung])
      t.is(outcome.status, loss === 'lost' ? 'rejected' : 'fulfilled')
      if (outcome.status === 'rejected') t.false(outcome.reason instanceof CommitInDoubt, 'it is known')
      t.is(await isThere(owner, name), outcome.status === 'fulfilled')
      // What was held arrives now: what was said stays true.
      await line.release()
      t.is(await isThere(owner, name), outcome.status === 'fulfilled')
      await write(db, `${name}-again`)
    })
  }

test.serial('without a server to query the commit is in doubt, with a message', async t => {
  const { line, db } = await lined(t)
  await db.raw('select 1')
  const sprung = line.trap({ at: /COMMIT;/, manner: 'cut', loss: 'answered' })
  void sprung.then(() => line.admit(false))
  const error = await t.throwsAsync(write(db, `doubt-${++written}`), { instanceOf: CommitInDoubt })
  t.is((error as CommitInDoubt).code, '08007')
})

test.serial('a server that was promoted since does not know the transaction', async t => {
  const { db } = await lined(t)
  const { xid, timeline } = (await transaction(db, trx => transactionName(trx)))!
  t.true(await isCommitted(db, { xid, timeline }, undefined))
  const earlier = isCommitted(db, { xid, timeline: '000000FF' }, undefined, performance.now() + 200)
  await t.throwsAsync(earlier, { instanceOf: CommitInDoubt })
})

test.serial('the outcome of a rollback is not queried', async t => {
  const { owner, db } = await lined(t)
  const name = `doubt-${++written}`
  const failing = transaction(db, async trx => {
    await trx('settings').insert({ name, value: '1' })
    throw new Error('no')
  })
  await t.throwsAsync(failing, { message: 'no' })
  t.false(await isThere(owner, name))
})

test.serial('a transaction that started without a name fails, and its connection is discarded', async t => {
  const { owner, line, db } = await lined(t)
  const name = `doubt-${++written}`
  await write(db, name)
  const opened = line.opened()
  // BEGIN itself succeeds, and the server then refuses what tells its name.
  await owner.raw('revoke execute on function pg_walfile_name(pg_lsn) from public')
  try {
    await t.throwsAsync(write(db, `${name}-unnamed`), { code: '42501' })
  } finally {
    await owner.raw('grant execute on function pg_walfile_name(pg_lsn) to public')
  }
  await write(db, `${name}-again`)
  t.false(await isThere(owner, `${name}-unnamed`))
  t.is(line.opened(), opened + 1)
})

test.serial('a server process with a reused pid is a different one, and is left alone', async t => {
  const { db } = await lined(t)
  const idle = await db.transaction()
  t.teardown(() => idle.rollback().catch(() => {}))
  const [mine]: ServerProcess[] = (await idle.raw(serverProcessQuery)).rows
  await awaitServerProcessEnd(db, { ...mine!, startedAt: '2000-01-01 00:00:00+00' }, undefined)
  await t.notThrowsAsync(async () => idle.raw('select 1'))
  await awaitServerProcessEnd(db, mine!, undefined)
  await t.throwsAsync(async () => idle.raw('select 1'), undefined, 'it was ended by its whole name')
})

test.serial('a working server process is left alone, and not taken for one that has ended', async t => {
  const { db: owner } = await database
  const lock = await owner.transaction()
  t.teardown(() => lock.rollback().catch(() => {}))
  await lock.raw('select pg_advisory_xact_lock(4711)')
  const busy = await owner.transaction()
  t.teardown(() => busy.rollback().catch(() => {}))
  const [mine]: ServerProcess[] = (await busy.raw(serverProcessQuery)).rows
  const work = Promise.resolve(busy.raw('set local statement_timeout = 0; select pg_advisory_xact_lock(4711)'))
  const isAtWork = () => owner('pg_stat_activity').where({ pid: mine!.pid, wait_event_type: 'Lock' }).first('pid')
  await comesTrue(async () => Boolean(await isAtWork()))
  const doubt = awaitServerProcessEnd(owner, mine!, undefined, performance.now() + 300)
  await t.throwsAsync(doubt, { instanceOf: CommitInDoubt })
  await lock.rollback()
  await t.notThrowsAsync(work)
})
