import test from 'ava'
import { removeApp } from '../../../db/apps/app-creation.ts'
import { listApps, usedMemoryMb } from '../../../db/apps/apps.ts'
import * as hosts from '../../../db/hosts/hosts.ts'
import { ApiError } from '../../../policy/errors.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** Codes of refusals and a count of successes. */
async function outcomes(attempts: Promise<unknown>[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const result of await Promise.allSettled(attempts)) {
    const name =
      result.status === 'fulfilled'
        ? 'created'
        : result.reason instanceof ApiError
          ? result.reason.code
          : String(result.reason)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

test.serial('twenty uploads at once never pass the plan', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('big', { memoryMb: 100_000 })
  const user = await make.user()
  t.deepEqual(await outcomes(Array.from({ length: 20 }, () => make.app(user.id))), { created: 8, FEW_MEMORY: 12 })
  t.is(await usedMemoryMb(db, user.id), 4096)
})

test.serial('one name is given once, also to many at the same moment', async t => {
  const { db } = await database
  const make = rows(db)
  const users = await Promise.all(Array.from({ length: 6 }, () => make.user()))
  const attempts = users.map(user => make.app(user.id, { subdomain: 'only-one' }))
  t.deepEqual(await outcomes(attempts), { created: 1, SUBDOMAIN_TAKEN: 5 })
})

test.serial('a refusal leaves no row, no memory and no archive in use', async t => {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  await t.throwsAsync(make.app(user.id, { memoryMb: 4608 }), { message: /4096 MB left/ })
  t.deepEqual(await listApps(db, user.id), [])
  t.deepEqual(await db('operations').where({ owner_id: user.id }), [])
  t.deepEqual(await db('segments').where({ state: 'stored', refs: 0 }), [])
})

test.serial('hosts that are full, drain or are silent are told apart', async t => {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  await hosts.setDraining(db, 'big', true)
  t.deepEqual(await outcomes([make.app(user.id)]), { CLUSTER_MAINTENANCE_TRY_LATER: 1 })
  await make.host('small', { memoryMb: 600 })
  t.deepEqual(await outcomes([make.app(user.id), make.app(user.id)]), { created: 1, FAILED_CLUSTER_SELECTION: 1 })
  await db('hosts')
    .where({ id: 'small' })
    .update({ last_seen_at: new Date(Date.now() - 6000) })
  t.deepEqual(await outcomes([make.app(user.id)]), { CLUSTER_MAINTENANCE_TRY_LATER: 1 })
  await hosts.setDraining(db, 'big', false)
})

test.serial('an application that goes away gives memory, name and archive back, once', async t => {
  const { db } = await database
  const make = rows(db)
  await hosts.seeHost(db, 'big')
  const user = await make.user()
  const { app } = await make.app(user.id, { subdomain: 'again' })
  await removeApp(db, app.id)
  await removeApp(db, app.id)
  t.is(await usedMemoryMb(db, user.id), 0)
  t.deepEqual(await db('segments').where('refs', '<', 0), [])
  await t.notThrowsAsync(make.app(user.id, { subdomain: 'again' }))
})

test.serial('what waited for an application that goes away has ended, with its reason', async t => {
  const { db } = await database
  const make = rows(db)
  const { app, operationId, deploymentId } = await make.app((await make.user()).id)
  await removeApp(db, app.id)
  t.like(await db('operations').where({ id: operationId }).first(), { state: 'cancelled', code: 'APP_NOT_FOUND' })
  const deployment = await db('deployments').where({ id: deploymentId }).first()
  t.like(deployment, { state: 'error', code: 'APP_NOT_FOUND', message: 'The application was deleted.' })
})

test.serial('every application has a user of its own, from 10001 on', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('uids', { memoryMb: 100_000 })
  const user = await make.user()
  const uids: number[] = []
  for (let n = 0; n < 3; n++) uids.push((await make.app(user.id)).app.uid)
  t.is(new Set(uids).size, 3)
  const { rows: all } = await db.raw('select min(uid) as least, count(*) = count(distinct uid) as distinct from apps')
  t.true(all[0].least >= 10_001 && all[0].distinct)
  const { rows: sequence } = await db.raw(
    `select start_value::integer from pg_sequences where sequencename = 'app_uids'`,
  )
  t.deepEqual(sequence, [{ start_value: 10_001 }])
})
