import test from 'ava'
import * as operations from '../../db/operations/operations.ts'
import { holdSnapshotSlot } from '../../db/snapshots/snapshot-slots.ts'
import { laneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { keepHistory } from '../kit/platform/histories.ts'
import { deployKit } from './deploy-kit.ts'

const kit = deployKit()
const place = { subject: 'snapshot/h1' }

async function placeKit() {
  const base = await kit
  const leases = () => base.db('blob_leases').where(place)
  const step = async (id: string) => (await operations.findOperation(base.db, id))?.step ?? ''
  return {
    ...base,
    leases,
    holders: async (): Promise<string[]> => leases().orderBy('place').pluck('holder'),
    waits: (id: string) => comesTrue(async () => /waiting for its host/.test(await step(id))),
    /** Other operations hold both slots from here on. Resolves when no copy runs any more. */
    async takeAway() {
      await holdSnapshotSlot(base.db, 'h1', 'another')
      await leases().update({ holder: 'somebody', expires_at: new Date(Date.now() + 600_000) })
      await comesTrue(async () => base.copies.now === 0)
    },
  }
}

test.serial(
  'a place that is lost in the middle of a copy: the files are given back, and copied again in turn',
  async t => {
    const { running, snapshot, push, behave, steps, takeAway, leases, copies, client } = await placeKit()
    const app = await running()
    const plan = behave(app, { pauseAt: 'takeSnapshot 1' })
    const { end } = await snapshot(app)
    await plan.reached
    await takeAway()
    t.is((await (await push(app)).end()).state, 'success', 'a deploy of the application that waits')
    plan.open()
    await leases().delete()
    t.like(await end(), { state: 'success', code: null })
    t.is((await steps(app, 0)).filter(step => step.startsWith('takeSnapshot')).length, 2)
    t.is(copies.most, 1)
    await keepHistory(client, 'snapshot-place-lost', app.id)
  },
)

test.serial('an attempt may wait for a slot for as long as all of them: the next one joins the line last', async t => {
  const { running, snapshot, client } = await placeKit()
  const app = await running()
  await (await snapshot(app)).end()
  const { events } = await client.workflow.getHandle(laneId(app.id)).fetchHistory()
  const scheduled = (events ?? []).map(event => event.activityTaskScheduledEventAttributes)
  const waits = scheduled.find(one => one?.activityType?.name === 'awaitSnapshotPlace')
  t.is(Number(waits?.startToCloseTimeout?.seconds) / 3600, 12)
})

test.serial(
  'a crash of the database clears the slots: a running copy continues, and waiting snapshots hold no files',
  async t => {
    const { running, snapshot, push, behave, db, holders, waits, copies } = await placeKit()
    const copied: Awaited<ReturnType<typeof snapshot>>[] = []
    const plans: ReturnType<typeof behave>[] = []
    t.teardown(() => plans.forEach(plan => void plan.open()))
    for (const app of [await running(), await running()]) {
      const plan = behave(app, { pauseAt: 'takeSnapshot 1' })
      plans.push(plan)
      copied.push(await snapshot(app))
      await plan.reached
    }
    const last = await running()
    const queued = await snapshot(last)
    await waits(queued.operationId)
    await db.raw('truncate blob_leases')
    await comesTrue(async () => (await holders()).length === 2)
    t.is((await (await push(last)).end()).state, 'success', 'a deploy of the application that waits')
    t.deepEqual((await holders()).sort(), copied.map(({ operationId }) => operationId).sort())
    for (const plan of plans) plan.open()
    for (const { end } of [...copied, queued]) t.is((await end()).state, 'success')
    t.is(copies.most, 2)
  },
)

test.serial('a snapshot that loses its slot repeatedly gives up', async t => {
  const { running, snapshot, behave, steps, takeAway, leases, holders, copies } = await placeKit()
  const app = await running()
  behave(app, { pauseAt: 'takeSnapshot 1' })
  const { end, row, operationId } = await snapshot(app)
  for (let copy = 1; copy <= 3; copy++) {
    t.is((await steps(app, copy)).length, copy)
    await comesTrue(async () => copies.now === 1 && (await holders()).includes(operationId))
    await takeAway()
    await leases().delete()
  }
  t.like(await end(), { state: 'error', code: 'SNAPSHOT_FAILED' })
  t.is((await row()).state, 'failed')
  t.is((await steps(app, 3)).length, 3)
})
