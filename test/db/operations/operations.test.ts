import test from 'ava'
import { claimNext, enqueue, finish, type OperationKind } from '../../../db/operations/operations.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('of many operations that wait one is claimed at a time: the oldest, and a deletion before all', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { id: ownerId } = await make.user()
  const { app, operationId } = await make.app(ownerId)
  const queue = (kind: OperationKind) => enqueue(db, { targetId: app.id, kind, ownerId, actor: ownerId })
  const waiting: string[] = [operationId]
  for (const kind of ['stop', 'start', 'restart', 'stop', 'start'] as const) waiting.push((await queue(kind)).id)
  waiting.unshift((await queue('delete')).id)
  const running = () => db('operations').where({ target_id: app.id, state: 'running' }).pluck('id')
  for (const id of waiting) {
    t.is((await claimNext(db, app.id))?.id, id)
    t.deepEqual(await running(), [id], 'the others wait, and can still be told that they will never run')
    t.is((await claimNext(db, app.id))?.id, id, 'whoever asks again is given the same one')
    await finish(db, id, { state: 'success' })
  }
  t.is(await claimNext(db, app.id), undefined)
})
