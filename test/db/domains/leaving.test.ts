import test from 'ava'
import { removeApp } from '../../../db/apps/app-creation.ts'
import type { Db } from '../../../db/database.ts'
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
