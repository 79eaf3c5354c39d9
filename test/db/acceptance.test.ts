import { randomUUID } from 'node:crypto'
import test from 'ava'
import { confirmOperation, undoOperation, undoUnconfirmed } from '../../db/acceptance.ts'
import { usedMemoryMb } from '../../db/accounts/account-reservations.ts'
import { findApp, listApps, loadApp, recordDesiredState } from '../../db/apps/apps.ts'
import { type Db, transaction } from '../../db/database.ts'
import { queueDeploy } from '../../db/deploys/deploys.ts'
import { pushes } from '../../db/git/pushes.ts'
import { claimIdempotencyKey, releaseIdempotencyKey, storeAnswer } from '../../db/idempotency.ts'
import {
  claimNextOperation,
  enqueueDeletion,
  enqueueOperation,
  expireQueuedOperation,
  findOperationsToCancel,
  finishOperation,
} from '../../db/operations/operations.ts'
import { acceptance } from '../../policy/acceptance.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { holdLocks } from '../kit/rows/held-locks.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

async function made(accepting = false) {
  const { db } = await database
  const make = rows(db)
  await make.host('big', { memoryMb: 1_000_000 })
  const { id: ownerId } = await make.user()
  const created = await make.app(ownerId, {}, { accepting })
  if (!accepting) await db('operations').where({ id: created.operationId }).update({ state: 'success' })
  return { db, ownerId, ...created }
}

test.serial('an unconfirmed operation is not claimed; a confirmed one is, and confirming may be repeated', async t => {
  const { db, app, ownerId } = await made()
  const { id } = await enqueueOperation(db, {
    targetId: app.id,
    kind: 'stop',
    ownerId,
    actor: ownerId,
    accepting: true,
  })
  t.is(await claimNextOperation(db, { type: 'app', id: app.id }), undefined)
  t.true(await confirmOperation(db, id))
  t.true(await confirmOperation(db, id))
  t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, id)
  t.true(await confirmOperation(db, id))
  t.false(await undoOperation(db, id), 'what was confirmed stays')
})

test.serial('an operation that is not confirmed in time is undone, and can no longer be confirmed', async t => {
  const { db, app, ownerId } = await made()
  const { id } = await enqueueOperation(db, {
    targetId: app.id,
    kind: 'stop',
    ownerId,
    actor: ownerId,
    accepting: true,
  })
  await undoUnconfirmed(db, 60)
  t.true(await db('operations').where({ id }).first('id').then(Boolean), 'it is young')
  await db('operations')
    .where({ id })
    .update({ created_at: db.raw(`now() - interval '61 seconds'`) })
  t.is(await undoUnconfirmed(db, 60), 1)
  t.false(await confirmOperation(db, id))
})

test.serial('an operation that cannot be undone or expired does not delay the others', async t => {
  const { db, app, ownerId } = await made()
  const request = (more: object) =>
    enqueueOperation(db, { targetId: app.id, kind: 'stop', ownerId, actor: ownerId, ...more }).then(({ id }) => id)
  const [stayed, stays, late] = [
    await request({ claimWithinMs: -1000 }),
    await request({ claimWithinMs: -2000 }),
    await request({ claimWithinMs: -500 }),
  ]
  const [kept, free] = [await request({ accepting: true }), await request({ accepting: true })]
  const old = { created_at: db.raw(`now() - interval '61 seconds'`) }
  await db('operations').whereIn('id', [kept, free]).update(old)
  await db.raw(`
    create function refused() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
    create trigger refused before update or delete on operations for each row
      when (old.id in ('${stays}', '${stayed}', '${kept}')) execute function refused()`)
  t.teardown(() => db.raw('drop trigger refused on operations; drop function refused()'))
  const failed: string[] = []
  t.is(await undoUnconfirmed(db, 60, id => failed.push(id)), 1)
  t.deepEqual(failed, [stays, stayed, kept], 'the oldest first')
  t.is((await db('operations').where({ id: late }).first()).state, 'expired')
  t.false(await confirmOperation(db, free))
  failed.length = 0
  await undoUnconfirmed(db, 60, id => failed.push(id), [kept])
  t.deepEqual(failed, [stays, stayed], 'what is left out waits')
  failed.length = 0
  await undoUnconfirmed(db, 60, id => failed.push(id), [kept, stays])
  t.deepEqual(failed, [stayed])
})

test.serial('an operation whose application someone has locked delays no others either', async t => {
  const [held, free] = [await made(), await made()]
  const { db } = held
  const late = async ({ app, ownerId }: typeof held, claimWithinMs: number) =>
    (await enqueueDeletion(db, { targetId: app.id, kind: 'delete', ownerId, actor: ownerId, claimWithinMs })).id
  const ids = [await late(held, -2000), await late(free, -1000)]
  const letGo = await holdLocks(db, trx => trx('apps').where({ id: held.app.id }).forUpdate().first('id'))
  const failed: string[] = []
  await undoUnconfirmed(db, 60, id => failed.push(id)).finally(letGo)
  t.deepEqual(failed, [ids[0]])
  const states = await db('operations').whereIn('id', ids).orderBy('seq').pluck('state')
  t.deepEqual(states, ['queued', 'expired'])
  await undoUnconfirmed(db, 60)
})

test.serial(
  'a creation is visible once it is confirmed; when it is undone, its memory, name and archive are free',
  async t => {
    const { db, app, ownerId, operationId } = await made(true)
    t.deepEqual([await findApp(db, ownerId, app.id), (await listApps(db, ownerId)).length], [undefined, 0])
    t.is(await usedMemoryMb(db, ownerId), 512, 'another upload cannot pass the plan meanwhile')
    const held = db('deployments').join('segments', 'segments.id', 'segment_id').where({ operation_id: operationId })
    const { segment_id } = await held.first('segment_id')
    t.true(await undoOperation(db, operationId))
    t.is(await usedMemoryMb(db, ownerId), 0)
    t.is((await db('segments').where({ id: segment_id }).first()).refs, 0)
    t.is(await db('apps').where({ subdomain: app.subdomain }).first('id'), undefined)

    const other = await made(true)
    t.true(await confirmOperation(db, other.operationId))
    t.is((await listApps(db, other.ownerId)).length, 1)
  },
)

test.serial(
  'the desired state is deleted until the last deletion of an application has failed, in every way that it can fail',
  async t => {
    const { db, app, ownerId } = await made()
    const ask = async (terms: { claimWithinMs?: number; accepting?: boolean } = {}) =>
      (await enqueueDeletion(db, { targetId: app.id, kind: 'delete', ownerId, actor: ownerId, ...terms })).id
    const wanted = async () => (await loadApp(db, app.id))?.desired_state
    const [undone, expired, late] = [await ask({ accepting: true }), await ask(), await ask({ claimWithinMs: 0 })]
    t.is(await wanted(), 'deleted')
    await recordDesiredState(db, app.id, 'stopped') // a stop that was under way
    t.is(await wanted(), 'deleted')
    t.true(await undoOperation(db, undone))
    t.true(await expireQueuedOperation(db, expired))
    t.is(await wanted(), 'deleted', 'one waits still')
    await undoUnconfirmed(db, 60)
    t.is((await db('operations').where({ id: late }).first()).state, 'expired')
    t.is(await wanted(), 'stopped')

    const failed = await ask()
    t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, failed)
    await db('apps').where({ id: app.id }).update({ status: 'deleting', started_at: db.fn.now() })
    t.is(await wanted(), 'deleted')
    await transaction(db, trx => finishOperation(trx, failed, { state: 'error', code: 'ACTION_FAILED' }))
    t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'stopped', desired_if_kept: null })
  },
)

test.serial('two deletions that fail at the same moment still revert the desired state', async t => {
  const { db, app, ownerId } = await made()
  const ask = () => enqueueDeletion(db, { targetId: app.id, kind: 'delete', ownerId, actor: ownerId })
  const [first, second] = [await ask(), await ask()]
  const holder = await db.transaction()
  t.teardown(async () => void (holder.isCompleted() || (await holder.rollback())))
  await holder.raw('select 1 from apps where id = ? for update', [app.id])
  let over = 0
  const ends = [first, second].map(({ id }) => expireQueuedOperation(db, id).finally(() => over++))
  const locked = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await comesTrue(async () => over > 0 || (await db.raw(locked)).rows.length >= 2)
  t.is(over, 0, 'both wait for the application')
  await holder.commit()
  t.deepEqual(await Promise.all(ends), [true, true])
  t.is((await loadApp(db, app.id))?.desired_state, 'running')
})

/** A push that waits for its confirmation. */
const acceptPush = async (db: Db, appId: string, ownerId: string) =>
  (await transaction(db, trx =>
    queueDeploy(trx, {
      ...{ appId, ownerId, actor: ownerId, trigger: 'webhook', accepting: true },
      ...{ revision: 'c'.repeat(40), cloneUrl: 'https://git.example.org/a.git', branch: 'main' },
    }),
  ))!

test.serial('of two pushes to a branch the newer one wins, in either order of confirmation', async t => {
  const { db, app, ownerId } = await made()
  const push = () => acceptPush(db, app.id, ownerId)
  const [older, newer] = [await push(), await push()]
  t.true(await pushes.confirm(db, { appId: app.id, ownerId }, newer.operationId))
  t.true(
    await pushes.confirm(db, { appId: app.id, ownerId }, older.operationId),
    'it is superseded, and reported as such',
  )
  const reported = { state: 'error', code: 'DEPLOY_SUPERSEDED', superseded_by: newer.deploymentId }
  t.like(await db('deployments').where({ id: older.deploymentId }).first(), reported)
  t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, newer.operationId)
  t.is(await claimNextOperation(db, { type: 'app', id: app.id }, ['deploy']), undefined)

  const [lost, last] = [await push(), await push()]
  t.true(await undoOperation(db, lost.operationId))
  t.false(await pushes.confirm(db, { appId: app.id, ownerId }, lost.operationId))
  t.true(await pushes.confirm(db, { appId: app.id, ownerId }, last.operationId))
})

test.serial(
  'a confirmation gives up waiting for a locked application, so that it can be repeated on another connection',
  async t => {
    const { db, app, ownerId } = await made()
    const { operationId } = await acceptPush(db, app.id, ownerId)
    const holder = await db.transaction()
    t.teardown(async () => void (holder.isCompleted() || (await holder.rollback())))
    await holder.raw('select 1 from apps where id = ? for update', [app.id])
    t.is(await pushes.confirm(db, { appId: app.id, ownerId }, operationId), undefined)
    await holder.rollback()
    t.true(await pushes.confirm(db, { appId: app.id, ownerId }, operationId))
    t.true(acceptance.push.confirmLockMs < acceptance.tryMs, 'before the attempt is given up')
  },
)

test.serial('a command that was not claimed in time never runs, and cancels nothing', async t => {
  const { db, app, ownerId } = await made()
  const request = { targetId: app.id, ownerId, actor: ownerId }
  const running = await enqueueOperation(db, { ...request, kind: 'deploy' })
  t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, running.id)
  const { id } = await enqueueOperation(db, { ...request, kind: 'delete', claimWithinMs: 60_000 })
  t.deepEqual(await findOperationsToCancel(db, { type: 'app', id: app.id }), [running.id], 'in time it ends what runs')
  await db('operations')
    .where({ id })
    .update({ claim_before: db.raw(`now() - interval '1 second'`) })
  t.deepEqual(await findOperationsToCancel(db, { type: 'app', id: app.id }), [])
  await db('operations').where({ id: running.id }).update({ state: 'success' })
  t.is(await claimNextOperation(db, { type: 'app', id: app.id }), undefined)
  await undoUnconfirmed(db, 60)
  t.like(await db('operations').where({ id }).first(), { state: 'expired', code: 'ACTION_FAILED' })
})

test.serial('a key belongs to its claim: a request that lost it neither stores an answer nor frees it', async t => {
  const { db, ownerId } = await made()
  const asked = {
    userId: ownerId,
    credentialId: randomUUID(),
    isLimited: false,
    key: randomUUID(),
    route: 'POST /',
    fingerprint: '',
  }
  const [first, second] = [{ ...asked }, { ...asked }]
  t.is((await claimIdempotencyKey(db, first)).state, 'first')
  await db('idempotency_keys').where({ key: asked.key }).update({ created_at: '2000-01-01' })
  t.is((await claimIdempotencyKey(db, second)).state, 'first', 'the first one was given up')
  await releaseIdempotencyKey(db, first)
  t.false(await storeAnswer(db, first, { status: 200, body: {}, headers: {} }))
  t.is((await claimIdempotencyKey(db, { ...asked })).state, 'running')
  t.true(await storeAnswer(db, second, { status: 200, body: {}, headers: {} }))
  t.is((await claimIdempotencyKey(db, { ...asked })).state, 'answered')
})
