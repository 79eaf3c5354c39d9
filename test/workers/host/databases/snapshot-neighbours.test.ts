import test from 'ava'
import { queueDatabaseSnapshot } from '../../../../db/databases/database-snapshots.ts'
import { findOperation } from '../../../../db/operations/operations.ts'
import { queueSnapshot } from '../../../../db/snapshots/snapshots.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { plansOfMemory } from '../../../kit/rows/rows.ts'
import { laneKit } from '../../../workflows/lane-kit.ts'

/** Databases whose snapshots do not come to their end, in the order in which they began. */
const endless = new Set<string>()
const copying: string[] = []
let most = 0
let open = () => {}
const opened = new Promise<void>(resolve => {
  open = resolve
})

const kit = laneKit(
  {},
  {},
  {
    async before({ databaseId }, name) {
      if (name !== 'takeDatabaseSnapshot' || !endless.has(databaseId)) return
      copying.push(databaseId)
      most = Math.max(most, copying.length)
      await opened
      copying.splice(copying.indexOf(databaseId), 1)
    },
  },
)

const plans = plansOfMemory(1_000_000)

/** An account with databases that run. */
async function account(count: number) {
  const { db, make, databaseLanes, run } = await kit
  const user = await make.user()
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const { database, operationId } = await make.database(user.id)
    await databaseLanes.wake(database.id, user.id)
    await run.ended(operationId)
    ids.push(database.id)
  }
  return {
    ids,
    /** Requests a snapshot of each. */
    async snapshots() {
      const requested: string[] = []
      for (const databaseId of ids) {
        const terms = { ownerId: user.id, actor: user.id, origin: 'manual', plans } as const
        requested.push((await queueDatabaseSnapshot(db, { databaseId, ...terms })).operation_id)
        await databaseLanes.wake(databaseId, user.id)
      }
      return requested
    },
  }
}

test('while an account snapshots all of its databases, which never ends, those of another are taken, one after the other', async t => {
  t.timeout(200_000)
  const { db, make, lanes, run } = await kit
  await make.databaseHost('h1', { memoryMb: 1_000_000 })
  const [hostile, neighbour] = [await account(8), await account(2)]
  t.teardown(() => open())
  for (const id of hostile.ids) endless.add(id)
  const never = await hostile.snapshots()
  await comesTrue(() => copying.length > 0)
  const waiting = async () => {
    const steps = await Promise.all(never.map(async id => (await findOperation(db, id))?.step ?? ''))
    return steps.filter(step => step.startsWith('waiting for its host')).length
  }
  // The first one has found a free slot.
  await comesTrue(async () => (await waiting()) === hostile.ids.length - 1)

  for (let n = 0; n < 2; n++) for (const id of await neighbour.snapshots()) t.is((await run.ended(id)).state, 'success')
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await lanes.wake(app.id, user.id)
  await run.ended(operationId)
  const { operation_id: ofApp } = await queueSnapshot(db, {
    ...{ appId: app.id, ownerId: user.id, actor: user.id, origin: 'manual', plans },
  })
  await lanes.wake(app.id, user.id)
  t.is((await run.ended(ofApp)).state, 'success', 'of an application of a third account')
  t.is(most, 1, 'the first account had one slot')
  t.is(await waiting(), hostile.ids.length - 1)

  open()
  for (const id of never) t.is((await run.ended(id)).state, 'success')
})
