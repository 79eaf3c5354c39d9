import { activityInfo } from '@temporalio/activity'
import test from 'ava'
import { loadApp } from '../../../db/apps/apps.ts'
import { gateSlots } from '../../../policy/hosts/host-slots.ts'
import { unpolled } from '../../../workers/poller-health.ts'
import { queuesOfHost } from '../../../workflows/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { health } from '../../kit/platform/health.ts'
import { plansOfMemory } from '../../kit/rows/rows.ts'
import { laneKit } from '../../workflows/lane-kit.ts'

const hangs = new Set<string>()
const neverInstalls = new Set<string>()
const inGate = new Set<string>()
let most = 0
let open = () => {}
const opened = new Promise<void>(resolve => {
  open = resolve
})

const installing = new Set<string>()
let endInstalls = () => {}
const installsEnd = new Promise<void>(resolve => {
  endInstalls = resolve
})

/** On which queue each activity came. */
const cameOn = new Map<string, string>()
const came = () => void cameOn.set(activityInfo().activityType, activityInfo().taskQueue)

const kit = laneKit(
  {
    installs: () => true,
    before: {
      startApp: async () => came(),
      stopApp: async () => came(),
      removeContainers: async () => came(),
      async installDependencies({ appId, ownerId }) {
        came()
        if (!neverInstalls.has(ownerId)) return
        installing.add(appId)
        await installsEnd
      },
      async passHealthGate({ appId, ownerId }) {
        came()
        if (!hangs.has(ownerId)) return
        inGate.add(appId)
        most = Math.max(most, inGate.size)
        await opened
        inGate.delete(appId)
      },
    },
  },
  { BUILD_SLOTS: '2' },
)

test('every queue of a host is polled, and its health check covers each', async t => {
  const { client, address, queuePrefix } = await kit
  const queues = Object.values(queuesOfHost(queuePrefix, 'h1'))
  t.is(queues.length, 5)
  await comesTrue(async () => (await unpolled(client, queues)).length === 0)
  const one = queues.map((queue, n) => (n === 2 ? `${queue}-of-nobody` : queue))
  t.deepEqual(await unpolled(client, one), [one[2]!])

  const asked = (host: string) =>
    health('host', { TEMPORAL_ADDRESS: address, QUEUE_PREFIX: queuePrefix, HOST_NAME: host })
  const [there, another] = await Promise.all([asked('h1'), asked('h2')])
  t.deepEqual(there, { code: 0, words: '' })
  t.is(another.code, 1)
  for (const queue of Object.values(queuesOfHost(queuePrefix, 'h2'))) t.true(another.words.includes(queue), queue)
})

test('while the gates of one account hang, commands and deploys of another on the same host succeed', async t => {
  t.timeout(200_000)
  const { db, make, run, lanes, queuePrefix } = await kit
  const [hostile, neighbour] = [await make.user(), await make.user()]
  hangs.add(hostile.id)
  const many: Awaited<ReturnType<typeof make.app>>[] = []
  for (let n = 0; n < 40; n++)
    many.push(await make.app(hostile.id, { memoryMb: 256 }, { plans: plansOfMemory(100_000) }))
  t.teardown(open)
  for (const { app } of many) await lanes.wake(app.id, hostile.id)
  await comesTrue(() => inGate.size >= gateSlots.perSubject)

  const { app, operationId } = await make.app(neighbour.id)
  await lanes.wake(app.id, neighbour.id)
  t.is((await run.ended(operationId)).state, 'success')
  t.is((await run.command(app, 'stop')).state, 'success')
  t.is((await run.command(app, 'start')).state, 'success')
  t.like(await loadApp(db, app.id), { status: 'running' })
  t.is((await run.command(app, 'delete')).state, 'success')
  // No long activity uses the queue of commands, whatever the number of slots.
  const { commands, deploys, builds } = queuesOfHost(queuePrefix, 'h1')
  const expected = { startApp: commands, stopApp: commands, removeContainers: commands }
  t.deepEqual(Object.fromEntries(cameOn), { ...expected, passHealthGate: deploys, installDependencies: builds })

  t.is(inGate.size, gateSlots.perSubject)
  open()
  for (const { operationId } of many) t.is((await run.ended(operationId)).state, 'success')
  t.is(most, gateSlots.perSubject)
})

test('while install steps of one account never end, those of another on the same host are run', async t => {
  t.timeout(200_000)
  const { make, run, lanes } = await kit
  const [hostile, neighbour] = [await make.user(), await make.user()]
  neverInstalls.add(hostile.id)
  const many = [await make.app(hostile.id), await make.app(hostile.id), await make.app(hostile.id)]
  t.teardown(endInstalls)
  for (const { app } of many) await lanes.wake(app.id, hostile.id)
  await comesTrue(() => installing.size > 0)

  for (let n = 0; n < 3; n++) {
    const { app, operationId } = await make.app(neighbour.id)
    await lanes.wake(app.id, neighbour.id)
    t.is((await run.ended(operationId)).state, 'success')
  }
  t.is(installing.size, 1)
  endInstalls()
  for (const { operationId } of many) t.is((await run.ended(operationId)).state, 'success')
})
