import test from 'ava'
import { removeApp } from '../../../db/apps/app-creation.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { domainChangesSince } from '../../../db/domains/domain-changes.ts'
import { listDomainEvents } from '../../../db/domains/domain-events.ts'
import { listBalancerMembers, listServedDomains } from '../../../db/domains/domain-lists.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain, releaseDomain, unassignDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const seen = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }
const missing = { ...seen, txtSeen: false, points: false }

async function account(db: Db, { plan = 'standard-4', apps = 1 } = {}) {
  const make = rows(db)
  await make.host('h1')
  const user = await make.user(plan)
  const made = await Promise.all(Array.from({ length: apps }, () => make.app(user.id, { memoryMb: 256 })))
  const ids = made.map(({ app }) => app.id)
  const assign = (id: string, hostname: string, takeOver?: { from: string; isProved: boolean }) =>
    assignDomain(db, { app: { id, owner_id: user.id }, hostname, plans: defaultPlans, takeOver })
  return { id: user.id, ids, assign }
}

const customOf = async (db: Db, id: string) => (await loadApp(db, id))?.custom_domain

test('a name is its first account’s, and another account is refused until DNS has shown that it changed hands', async t => {
  const { db } = await database
  const [ana, ben] = [await account(db), await account(db)]
  await ana.assign(ana.ids[0]!, 'taken.example.com')
  await t.throwsAsync(ben.assign(ben.ids[0]!, 'taken.example.com'), { code: 'DOMAIN_ALREADY_EXISTS' } as never)
  await t.throwsAsync(ben.assign(ben.ids[0]!, 'taken.example.com', { from: ben.id, isProved: false }), {
    code: 'DOMAIN_ALREADY_EXISTS',
  } as never)
  t.is(await customOf(db, ben.ids[0]!), null, 'a refusal changes nothing')
  await recordLook(db, (await findDomain(db, 'taken.example.com'))!, seen)

  await t.throwsAsync(
    ben.assign(ben.ids[0]!, 'taken.example.com', { from: ana.id, isProved: false }),
    { code: 'DOMAIN_ALREADY_EXISTS' } as never,
    'it was proved after DNS was asked, so more than a CNAME is needed',
  )
  await ben.assign(ben.ids[0]!, 'taken.example.com', { from: ana.id, isProved: true })
  t.is(await customOf(db, ben.ids[0]!), 'taken.example.com')
  t.is(await customOf(db, ana.ids[0]!), null)
  const domain = (await findDomain(db, 'taken.example.com'))!
  t.is(domain.owner_id, ben.id)
  t.is(domain.proved_at, null, 'the proof of the account before proves nothing for this one')
  t.deepEqual(await db('mails').where({ user_id: ana.id }).pluck('template'), ['domain-taken'])
  t.is((await db('audit').where({ account_id: ana.id, resource: 'taken.example.com' })).length, 1)
})

test('of two accounts that set a free name concurrently, one gets it', async t => {
  const { db } = await database
  const accounts = await Promise.all(Array.from({ length: 6 }, () => account(db)))
  const outcomes = await Promise.allSettled(accounts.map(one => one.assign(one.ids[0]!, 'race.example.com')))
  t.is(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  const holders = await db('apps').where({ custom_domain: 'race.example.com' })
  t.is(holders.length, 1)
  t.is((await findDomain(db, 'race.example.com'))!.owner_id, holders[0].owner_id)
})

test('the last application takes the name along: another name, @, and deletion', async t => {
  const { db } = await database
  const { ids, assign } = await account(db, { apps: 3 })
  const [one, two, three] = ids as [string, string, string]
  await assign(one, 'a.example.com')
  await assign(one, 'b.example.com')
  t.is(await findDomain(db, 'a.example.com'), undefined, 'replaced by another name')
  await assign(two, 'b.example.com')
  t.is(await unassignDomain(db, one), 'b.example.com')
  t.truthy(await findDomain(db, 'b.example.com'), 'another application still has it')
  await removeApp(db, two)
  t.is(await findDomain(db, 'b.example.com'), undefined)
  t.is(await unassignDomain(db, three), null, 'without a domain it is success')
  const events = (await listDomainEvents(db, 'b.example.com')).map(({ text }) => text)
  t.is(events.at(-1), 'released: no application has it any more')
})

test('a plan without custom domains is refused, and so is one load balancer more than the plan has', async t => {
  const { db } = await database
  const hobby = await account(db, { plan: 'hobby-1' })
  await t.throwsAsync(hobby.assign(hobby.ids[0]!, 'hobby.example.com'), { code: 'UPGRADE_REQUIRED' } as never)
  t.is(await findDomain(db, 'hobby.example.com'), undefined)

  const { id, ids, assign } = await account(db, { apps: 7 })
  const limit = defaultPlans.get('standard-4')!.balancerGroups
  t.is(limit, 2, 'so that n and n + 1 are tried')
  for (const [index, app] of ids.slice(0, 6).entries()) {
    const assigned = assign(app, `g${Math.floor(index / 2)}.example.com`)
    if (index < 5) await assigned
    else await t.throwsAsync(assigned, { code: 'LOAD_BALANCER_LIMIT_REACHED' } as never)
  }
  await assign(ids[6]!, 'g0.example.com') // a third member makes no other group
  const groups = (await listBalancerMembers(db, id)).map(({ hostname }) => hostname)
  t.deepEqual(groups, ['g0.example.com', 'g0.example.com', 'g0.example.com', 'g1.example.com', 'g1.example.com'])
})

test('concurrent requests never make more groups than the plan has', async t => {
  const { db } = await database
  const { id, ids, assign } = await account(db, { apps: 6 })
  for (const [index, app] of ids.slice(0, 3).entries()) await assign(app, `c${index}.example.com`)
  await Promise.allSettled(ids.slice(3).map((app, index) => assign(app, `c${index}.example.com`)))
  t.is(new Set((await listBalancerMembers(db, id)).map(({ hostname }) => hostname)).size, 2)
})

test('a name is served from its first proof on, and goes on when its record is missing', async t => {
  const { db } = await database
  const { ids, assign } = await account(db, { apps: 2 })
  const hostname = 'served.example.com'
  await assign(ids[0]!, hostname)
  await assign(ids[1]!, hostname)
  t.deepEqual(await listServedDomains(db, [hostname]), [])
  t.is((await recordLook(db, (await findDomain(db, hostname))!, missing))!.proved_at, null)
  await recordLook(db, (await findDomain(db, hostname))!, seen)
  const [served] = await listServedDomains(db, [hostname])
  t.is(served!.members.length, 2)

  const begin = Date.now()
  const later = (hours: number) => new Date(begin + hours * 3_600_000)
  await recordLook(db, (await findDomain(db, hostname))!, missing, later(1))
  await recordLook(db, (await findDomain(db, hostname))!, missing, later(72))
  const owner = (await findDomain(db, hostname))!.owner_id!
  const mails = () => db('mails').where({ user_id: owner }).pluck('template')
  t.deepEqual(await mails(), [], 'DNS fails often')
  await recordLook(db, (await findDomain(db, hostname))!, missing, later(74))
  await recordLook(db, (await findDomain(db, hostname))!, missing, later(98))
  t.deepEqual(await mails(), ['domain-unproved'], 'once')
  t.is((await listServedDomains(db, [hostname])).length, 1)
  const silent = { txtSeen: null, cnameSeen: null, points: null, delegated: null, problem: null }
  await recordLook(db, (await findDomain(db, hostname))!, seen, later(99))
  const again = await recordLook(db, (await findDomain(db, hostname))!, silent, later(100))
  t.is(again!.unproved_since, null, 'a name server that does not answer says nothing')
})

test('a name that nobody proves within 72 hours lapses, and its owner hears of it', async t => {
  const { db } = await database
  const { id, ids, assign } = await account(db)
  await assign(ids[0]!, 'slow.example.com')
  const created = (await findDomain(db, 'slow.example.com'))!.created_at.getTime()
  t.truthy(
    await recordLook(
      db,
      (await findDomain(db, 'slow.example.com'))!,
      missing,
      new Date(created + 72 * 3_600_000 - 1000),
    ),
  )
  t.is(
    await recordLook(db, (await findDomain(db, 'slow.example.com'))!, missing, new Date(created + 72 * 3_600_000)),
    null,
  )
  t.is(await findDomain(db, 'slow.example.com'), undefined)
  t.is(await customOf(db, ids[0]!), null)
  t.deepEqual(await db('mails').where({ user_id: id }).pluck('template'), ['domain-lapsed'])
})

test('each change of the routing of a name is noted: proof, members, release', async t => {
  const { db } = await database
  const { ids, assign } = await account(db, { apps: 2 })
  let { mark } = await domainChangesSince(db, null)
  const noted = async (hostname: string) => {
    const read = await domainChangesSince(db, mark)
    mark = read.mark
    return read.changed!.includes(hostname)
  }
  const hostname = 'noted.example.com'
  await assign(ids[0]!, hostname)
  t.true(await noted(hostname))
  await recordLook(db, (await findDomain(db, hostname))!, seen)
  t.true(await noted(hostname))
  await assign(ids[1]!, hostname)
  t.true(await noted(hostname))
  await db.transaction(trx => releaseDomain(trx, hostname, 'released'))
  t.true(await noted(hostname))
  t.is(await customOf(db, ids[0]!), null)
})
