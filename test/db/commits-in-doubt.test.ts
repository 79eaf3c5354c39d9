import { randomBytes } from 'node:crypto'
import test, { type ExecutionContext } from 'ava'
import { CommitInDoubt, isCommitted, nameOf } from '../../db/commits-in-doubt.ts'
import { type Db, openDatabase, transaction } from '../../db/database.ts'
import { allowProcesses } from '../../db/process-role.ts'
import { testDatabase } from '../kit/database.ts'
import { postgresLine } from '../kit/postgres-line.ts'

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
    test.serial(`a COMMIT that is ${how}: the transaction ends as what it is`, async t => {
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

test.serial('nobody to ask: it is in doubt, in words', async t => {
  const { line, db } = await lined(t)
  await db.raw('select 1')
  const sprung = line.trap({ at: /COMMIT;/, manner: 'cut', loss: 'answered' })
  void sprung.then(() => line.admit(false))
  const error = await t.throwsAsync(write(db, `doubt-${++written}`), { instanceOf: CommitInDoubt })
  t.is((error as CommitInDoubt).code, '08007')
})

test.serial('a server that was promoted since knows nothing of the transaction', async t => {
  const { db } = await lined(t)
  const { xid, timeline } = (await transaction(db, trx => nameOf(trx)))!
  t.true(await isCommitted(db, { xid, timeline }, undefined))
  const earlier = isCommitted(db, { xid, timeline: '000000FF' }, undefined, performance.now() + 200)
  await t.throwsAsync(earlier, { instanceOf: CommitInDoubt })
})

test.serial('what was rolled back is not asked for', async t => {
  const { owner, db } = await lined(t)
  const name = `doubt-${++written}`
  const failing = transaction(db, async trx => {
    await trx('settings').insert({ name, value: '1' })
    throw new Error('no')
  })
  await t.throwsAsync(failing, { message: 'no' })
  t.false(await isThere(owner, name))
})
