import test from 'ava'
import { removeApp } from '../../../db/apps/app-creation.ts'
import type { Db } from '../../../db/database.ts'
import { listDomainEvents, sweepDomainEvents } from '../../../db/domains/domain-events.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain, unassignDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const seen = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }

async function account(db: Db, apps: number) {
  const make = rows(db)
  await make.host('h1')
  const user = await make.user('standard-4')
  const made = await Promise.all(Array.from({ length: apps }, () => make.app(user.id, { memoryMb: 256 })))
  const ids = made.map(({ app }) => app.id)
  const assign = (id: string, hostname: string) =>
    assignDomain(db, { app: { id, owner_id: user.id }, hostname, plans: defaultPlans })
  return { ids, assign }
}

async function isAnyoneWaiting(db: Db): Promise<boolean> {
  const { rowCount } = await db.raw(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rowCount > 0
}

test.serial('a name goes with its last two applications, which leave at once', async t => {
  const { db } = await database
  const leave: [string, (trx: Db, id: string) => Promise<unknown>][] = [
    ['unassigned', unassignDomain],
    ['removed', removeApp],
  ]
  for (const [how, leaves] of leave) {
    const { ids, assign } = await account(db, 2)
    for (const id of ids) await assign(id, `${how}.example.com`)
    // The first has left and not committed when the second begins.
    const first = await db.transaction()
    await leaves(first, ids[0]!)
    let hasEnded = false
    const second = leaves(db, ids[1]!).then(() => {
      hasEnded = true
    })
    await comesTrue(async () => hasEnded || (await isAnyoneWaiting(db)))
    await first.commit()
    await second
    t.is(await findDomain(db, `${how}.example.com`), undefined, how)
  }
})

test.serial('a name that no application has is released at its next look', async t => {
  const { db } = await database
  const { ids, assign } = await account(db, 1)
  await assign(ids[0]!, 'orphan.example.com')
  const domain = (await findDomain(db, 'orphan.example.com'))!
  t.truthy(await recordLook(db, domain, seen))
  await db('apps').where({ id: ids[0]! }).update({ custom_domain: null })
  t.is(await recordLook(db, domain, seen), null)
  t.is(await findDomain(db, 'orphan.example.com'), undefined)
})

test.serial('events of a name stay for 30 days after its row, and while it has one', async t => {
  const { db } = await database
  const { ids, assign } = await account(db, 1)
  const texts = async (hostname: string) => (await listDomainEvents(db, hostname)).map(({ text }) => text)
  const later = () =>
    db('domain_events').update({
      at: db.raw(`at - interval '31 days'`),
      released_at: db.raw(`released_at - interval '31 days'`),
    })
  await assign(ids[0]!, 'old.example.com')
  await later()
  await sweepDomainEvents(db)
  t.is((await texts('old.example.com')).length, 1)
  await unassignDomain(db, ids[0]!)
  await sweepDomainEvents(db)
  t.is((await texts('old.example.com')).at(-1), 'released: no application has it any more')
  await assign(ids[0]!, 'old.example.com')
  await later()
  await sweepDomainEvents(db)
  t.is((await texts('old.example.com')).length, 3, 'its account has it again')
  await unassignDomain(db, ids[0]!)
  await later()
  await sweepDomainEvents(db)
  t.deepEqual(await texts('old.example.com'), [])
})
