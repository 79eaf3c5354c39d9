import test from 'ava'
import { databaseRecords } from '../../../activities/database-records.ts'
import { recordActivities } from '../../../activities/records.ts'
import * as operations from '../../../db/operations/operations.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const claim = () => ({ run: 'lane', step: 1 })
const underWay = { underWay: [] }

for (const type of ['app', 'database'] as const)
  test(`a start that the watch has queued behind the stop of a ${type}, which it could not see, is not made`, async t => {
    const { db } = await database
    const make = rows(db)
    await make.databaseHost(type)
    const { id: ownerId } = await make.user()
    const ports = { from: 20_000, to: 20_009 }
    const made = type === 'app' ? await make.app(ownerId) : await make.database(ownerId)
    const { id } = 'app' in made ? made.app : made.database
    const table = db(`${type}s`).where({ id })
    await db('operations').where({ id: made.operationId }).update({ state: 'success' })
    const claimed = () =>
      type === 'app'
        ? recordActivities({ db, plans, appsDomain: 'x.test', diskMbPer256Mb: 10, claim }).claimNext(id, underWay)
        : databaseRecords({ db, plans, ports, claim }).claimNextOfDatabase(id, underWay)
    const start = async (actor: string) =>
      (await operations.enqueueOperation(db, { targetType: type, targetId: id, kind: 'start', ownerId, actor })).id
    const end = (operation: string) => operations.finishOperation(db, operation, { state: 'success' })

    await table.clone().update({ status: 'exited', desired_state: 'running' })
    const wanted = await start(operations.watchActor)
    t.is((await claimed())?.id, wanted)
    await end(wanted)

    await table.clone().update({ desired_state: 'stopped' })
    const unwanted = await start(operations.watchActor)
    const asked = await start(ownerId)
    t.is((await claimed())?.id, asked, 'its owner starts what is stopped')
    t.like(await operations.findOperation(db, unwanted), { state: 'cancelled', code: null })
    await end(asked)
  })
