import test from 'ava'
import { claimNextOperationFor, holdClaim, isClaimCurrent } from '../../../db/operations/operation-claims.ts'
import {
  claimNextOperation,
  enqueueOperation,
  expireQueuedOperation,
  finishOperation,
  type OperationKind,
} from '../../../db/operations/operations.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('waiting operations are claimed one at a time: deletions first, then the oldest', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { id: ownerId } = await make.user()
  const { app, operationId } = await make.app(ownerId)
  const queue = (kind: OperationKind) => enqueueOperation(db, { targetId: app.id, kind, ownerId, actor: ownerId })
  const waiting: string[] = [operationId]
  for (const kind of ['stop', 'start', 'restart', 'stop', 'start'] as const) waiting.push((await queue(kind)).id)
  waiting.unshift((await queue('delete')).id)
  const running = () => db('operations').where({ target_id: app.id, state: 'running' }).pluck('id')
  for (const id of waiting) {
    t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, id)
    t.deepEqual(await running(), [id], 'the others wait, and can still be cancelled')
    t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, id, 'another request gets the same one')
    await finishOperation(db, id, { state: 'success' })
  }
  t.is(await claimNextOperation(db, { type: 'app', id: app.id }), undefined)
})

test('a restart that ends without success, or never starts, reverts only what it has shown itself', async t => {
  const { db } = await database
  const make = rows(db)
  const { id: ownerId } = await make.user()
  const { app, operationId } = await make.app(ownerId)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  const status = async () => (await db('apps').where({ id: app.id }).first()).status
  const queue = async () =>
    (await enqueueOperation(db, { targetId: app.id, kind: 'restart', ownerId, actor: ownerId })).id
  const [running, waiting] = [await queue(), await queue()]
  t.is((await claimNextOperation(db, { type: 'app', id: app.id }))?.id, running)
  for (const [started, before] of [
    [new Date(), 'running'],
    [null, 'exited'],
  ] as const) {
    await db('apps').where({ id: app.id }).update({ status: 'restarting', started_at: started })
    await db('operations').where({ id: running }).update({ state: 'running' })
    if (started) t.true(await expireQueuedOperation(db, waiting))
    t.is(await status(), 'restarting', 'the one that waited has shown nothing')
    await finishOperation(db, running, { state: 'error', code: 'ACTION_FAILED' })
    t.is(await status(), before)
  }
})

test('a step is abandoned once a later step of its run has written, another run has the operation, or it has ended', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { app, operationId } = await make.app((await make.user()).id)
  const run = (name: string) => (step: number) => ({ run: name, step })
  const [first, second] = [run('first'), run('second')]
  const current = (claim: { run: string; step: number }) => isClaimCurrent(db, operationId, claim)
  t.is((await claimNextOperationFor(db, { type: 'app', id: app.id }, first(1), []))?.id, operationId)
  t.deepEqual([await current(first(1)), await current(first(4)), await current(second(4))], [true, true, false])
  t.is(await holdClaim(db, operationId, first(5)), 'held')
  t.deepEqual([await current(first(4)), await current(first(5))], [false, true])
  await holdClaim(db, operationId, first(3))
  t.false(await current(first(4)), 'a late step takes nothing back')
  await claimNextOperationFor(db, { type: 'app', id: app.id }, second(2), [])
  t.deepEqual([await current(first(9)), await current(second(2))], [false, true])
  t.is(await holdClaim(db, operationId, first(9)), 'lost')
  await finishOperation(db, operationId, { state: 'success' })
  t.false(await current(second(2)))
})
