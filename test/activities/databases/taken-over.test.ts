import test from 'ava'
import { databaseRecords } from '../../../activities/database-records.ts'
import * as operations from '../../../db/operations/operations.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('a lane that begins an operation again knows so, and that an engine which was being restarted is to serve', async t => {
  const { db } = await database
  const make = rows(db)
  await make.databaseHost('taken-over')
  const user = await make.user()
  const { database: made, operationId } = await make.database(user.id)
  const { id } = made
  await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: new Date() })
  await db('databases').where({ id }).update({ status: 'running', container_id: 'c', started_at: new Date() })
  const lane = (run: string) =>
    databaseRecords({ db, plans, ports: { from: 20_000, to: 20_009 }, claim: () => ({ run, step: 1 }) })
  const claim = (run: string) => lane(run).claimNextOfDatabase(id, { underWay: [] })
  const asked = { targetType: 'database', targetId: id, kind: 'stop', ownerId: user.id, actor: user.id } as const
  await operations.enqueueOperation(db, asked)
  t.like(await claim('first'), { kind: 'stop', wasRunning: true, wasRestarting: false, wasBegun: false })
  t.like(await claim('first'), { wasBegun: false }, 'the same run repeats itself')
  await db('databases').where({ id }).update({ status: 'restarting' })
  t.like(await claim('second'), { kind: 'stop', wasRunning: true, wasRestarting: true, wasBegun: true })
  t.is(await claim('first'), null, 'the first takes nothing back')
})
