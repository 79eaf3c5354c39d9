import test from 'ava'
import { beginDowngrade, confirmDowngrade, settleDowngrade } from '../../../db/accounts/downgrades.ts'
import { removeDatabase } from '../../../db/databases/database-creation.ts'
import { listDatabases } from '../../../db/databases/databases.ts'
import { assignDomain, unassignDomain } from '../../../db/domains/domains.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

async function account(plan: string) {
  const { db } = await database
  const make = rows(db)
  await make.databaseHost('h1', { memoryMb: 1_000_000 })
  const { id } = await make.user(plan)
  const create = () => make.database(id, { plans })
  const planNow = async () => (await db('users').where({ id }).first()).plan
  const confirmed = async () => {
    await beginDowngrade(db, plans, id)
    await confirmDowngrade(db, plans, id, () => true)
  }
  return { db, id, create, planNow, confirmed }
}

test('a step to a plan without databases is refused while the account has one', async t => {
  const { db, id, create, planNow, confirmed } = await account('standard-4')
  const { database: made } = await create()
  await t.throwsAsync(beginDowngrade(db, plans, id), {
    code: 'DOWNGRADE_NOT_ALLOWED',
    message: 'You have 1 databases; the lower plan includes none. Delete them first.',
  })
  await removeDatabase(db, made.id)
  await confirmed()
  t.is(await settleDowngrade(db, plans, id), null)
  t.is(await planNow(), 'hobby-2')
  await t.throwsAsync(create(), { code: 'UPGRADE_REQUIRED' })
})

test('databases stay with a lower plan that includes them, and count in its memory', async t => {
  const { db, id, create, planNow, confirmed } = await account('standard-6')
  await create()
  await confirmed()
  await settleDowngrade(db, plans, id)
  t.is(await planNow(), 'standard-4')

  const large = await account('standard-6')
  await large.create()
  await db('databases').where({ owner_id: large.id }).update({ reserved_mb: 4097 })
  await t.throwsAsync(beginDowngrade(db, plans, large.id), { message: /^Applications and databases have 4097 MB/ })
})

test('a step is refused while more is stored, or more domains are shared, than the lower plan has', async t => {
  const { db, id, confirmed, planNow } = await account('pro-12')
  await db('usage_deltas').insert({ owner_id: id, objects: 1, bytes: 100 * 2 ** 30 + 1 })
  await t.throwsAsync(beginDowngrade(db, plans, id), { code: 'DOWNGRADE_NOT_ALLOWED', message: /^Your objects take/ })
  await db('usage_deltas').insert({ owner_id: id, objects: 0, bytes: -1 })
  const make = rows(db)
  const apps = await Promise.all(Array.from({ length: 6 }, () => make.app(id)))
  for (const [n, { app }] of apps.entries())
    await assignDomain(db, { app, hostname: `shop${n >> 1}-${id}.example.com`, plans })
  await t.throwsAsync(beginDowngrade(db, plans, id), { message: /^You have 3 load balancers; the lower plan has 2/ })
  await unassignDomain(db, apps[0]!.app.id)
  await confirmed()
  await settleDowngrade(db, plans, id)
  t.is(await planNow(), 'standard-8')
})

test('a database that is created while a step is applied wins or is refused, and never has a plan without databases', async t => {
  const { db } = await database
  for (let n = 0; n < 8; n++) {
    const { id, create, planNow, confirmed } = await account('standard-4')
    await confirmed()
    const settle = () => settleDowngrade(db, plans, id)
    const [first, second] = n % 2 === 0 ? [create(), settle()] : [settle(), create()]
    const [created] = await Promise.allSettled(n % 2 === 0 ? [first, second] : [second, first])
    const has = (await listDatabases(db, id)).length
    t.is(has, created?.status === 'fulfilled' ? 1 : 0)
    t.is(await planNow(), has === 1 ? 'standard-4' : 'hobby-2')
  }
})
