import test from 'ava'
import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import { listApps } from '../../../db/apps/apps.ts'
import * as hosts from '../../../db/hosts/hosts.ts'
import { chores, tidyRows } from '../../../db/housekeeping.ts'
import { CodedError } from '../../../policy/errors.ts'
import { retentionSettings } from '../../../policy/retention.ts'
import { statementsOf } from '../../kit/rows/plans-of.ts'
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
        : result.reason instanceof CodedError
          ? result.reason.code
          : String(result.reason)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

test.serial('twenty concurrent uploads never pass the plan', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('big', { memoryMb: 100_000 })
  const user = await make.user()
  t.deepEqual(await outcomes(Array.from({ length: 20 }, () => make.app(user.id))), {
    created: 8,
    INSUFFICIENT_MEMORY: 12,
  })
  t.is(await usedMemoryMb(db, user.id), 4096)
})

test.serial('concurrent creations get a subdomain only once', async t => {
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

test.serial('full, draining and unreachable hosts are distinguished', async t => {
  const { db } = await database
  const make = rows(db)
  const user = await make.user()
  await hosts.setDraining(db, 'big', true)
  t.deepEqual(await outcomes([make.app(user.id)]), { CLUSTER_MAINTENANCE_TRY_LATER: 1 })
  await make.host('small', { memoryMb: 600 })
  t.deepEqual(await outcomes([make.app(user.id), make.app(user.id)]), { created: 1, CLUSTER_SELECTION_FAILED: 1 })
  await db('hosts')
    .where({ id: 'small' })
    .update({ last_seen_at: new Date(Date.now() - 6000) })
  t.deepEqual(await outcomes([make.app(user.id)]), { CLUSTER_MAINTENANCE_TRY_LATER: 1 })
  await hosts.setDraining(db, 'big', false)
})

test.serial('a deleted application frees memory, name and archive, once', async t => {
  const { db } = await database
  const make = rows(db)
  await hosts.recordHostSeen(db, 'big')
  const user = await make.user()
  const { app } = await make.app(user.id, { subdomain: 'again' })
  await removeApp(db, app.id)
  await removeApp(db, app.id)
  t.is(await usedMemoryMb(db, user.id), 0)
  t.deepEqual(await db('segments').where('refs', '<', 0), [])
  await t.notThrowsAsync(make.app(user.id, { subdomain: 'again' }))
})

test.serial('an application with a long history is removed by the same few statements as one with none', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('long', { memoryMb: 100_000 })
  const user = await make.user()
  const removal = async (deploys: number) => {
    const { app } = await make.app(user.id)
    await db.raw(
      `with drawn as (
         insert into segments (id, state, refs, size, sha256)
         select md5(:app::text || n::text), 'stored', 1, 1, 'x' from generate_series(1, :deploys::integer) n returning id),
       asked as (
         insert into operations (id, target_id, kind, owner_id, actor, state)
         select id, :app, 'deploy', :owner, :owner, 'queued' from drawn returning id)
       insert into deployments (id, app_id, operation_id, release, source, revision, segment_id)
       select drawn.id, :app, asked.id, 2, 'upload', 'x', drawn.id from drawn join asked on asked.id = drawn.id`,
      { app: app.id, deploys, owner: user.id },
    )
    const sent = await statementsOf(() => removeApp(db, app.id))
    const deployed = db('deployments').where({ app_id: app.id })
    t.deepEqual(await deployed.clone().whereNot({ code: 'APP_NOT_FOUND' }).whereNot({ state: 'error' }), [])
    const events = await db('deployment_events')
      .whereIn('deployment_id', deployed.clone().select('id'))
      .where({ state: 'error' })
    t.is(events.length, deploys + 1)
    t.deepEqual(await db('operations').where({ target_id: app.id, state: 'queued' }), [])
    return { count: sent.length, held: () => deployed.clone().whereNotNull('segment_id').pluck('segment_id') }
  }
  const [few, many] = [await removal(3), await removal(450)]
  t.is(many.count, few.count)
  t.true(few.count < 12, `${few.count} statements`)
  t.deepEqual(await few.held(), [])
  // What one transaction leaves, the housekeeping takes.
  const left = await many.held()
  t.true(left.length > 0)
  await tidyRows(db, chores(retentionSettings({})), (name, error) => t.fail(`${name}: ${error}`))
  t.deepEqual(await many.held(), [])
  t.deepEqual(await db('segments').whereIn('id', left).whereNot({ refs: 0 }), [])
})

test.serial('operations that waited for a deleted application have ended, with the reason', async t => {
  const { db } = await database
  const make = rows(db)
  const { app, operationId, deploymentId } = await make.app((await make.user()).id)
  await removeApp(db, app.id)
  t.like(await db('operations').where({ id: operationId }).first(), { state: 'cancelled', code: 'APP_NOT_FOUND' })
  const deployment = await db('deployments').where({ id: deploymentId }).first()
  t.like(deployment, { state: 'error', code: 'APP_NOT_FOUND', message: 'The application was deleted.' })
})

test.serial('every application has its own uid, from 10001 on', async t => {
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
