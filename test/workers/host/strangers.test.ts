import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { decide } from '../../../activities/releases/decision.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { snapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { enqueueOperation, findOperation, type OperationKind } from '../../../db/operations/operations.ts'
import { type StepName, stepKinds } from '../../../policy/apps/step-kinds.ts'
import { serveHostQueues } from '../../../workers/host/host-queues.ts'
import { platformQueue, queuesOfHost } from '../../../workflows/ids.ts'
import { hostSteps } from '../../kit/hosts/host-steps.ts'
import { type AskedStep, strangerAsks } from '../../kit/hosts/stranger.ts'
import { log } from '../../kit/platform/platform.ts'
import { laneKit } from '../../workflows/lane-kit.ts'
import { portOf } from '../../workflows/ports.ts'
import { scriptedDatabases } from '../../workflows/scripted-databases.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-strangers-'))
test.after.always('remove the folder', () => rmSync(folder, { recursive: true, force: true }))
const kit = laneKit()
const timeoutMs = 180_000

/** A host of the kit's database whose activities are the real ones. */
async function realHost(id: string) {
  const { db, config, make } = await kit
  await make.host(id)
  const host = hostSteps(db, id, folder)
  const ofDatabases = scriptedDatabases({ db, hostId: id, places: snapshotSlots(db) })
  const { activities: databases, snapshots: databaseSnapshots } = ofDatabases
  const queues = await serveHostQueues({ config, log, hostId: id, ...host, databases, databaseSnapshots })
  return { ...host, ofDatabases, stop: () => queues.stop() }
}

/** An application on host `id` that runs, and an operation of this kind which a lane works on, with what it decided. */
async function underWay(id: string, kind: OperationKind) {
  const { db, make } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ host_id: id, status: 'running', release: 1 })
  const operation = await enqueueOperation(db, { targetId: app.id, kind, ownerId: user.id, actor: user.id })
  await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'the-lane', step: 1 }, [])
  const { release } = (await decide(db, { appsDomain: 'x.test', diskMbPer256Mb: 10 }, operation.id))!
  return { app, operationId: operation.id, release }
}

const forged = { uid: 0, ownerId: '0', start: 'env > /app/stolen', hostAddress: '127.0.0.9', hostname: null }
const names = Object.keys(stepKinds) as StepName[]

function everyStep(queue: string, release: Partial<Release>, operationId: string): AskedStep[] {
  const second: Partial<Record<StepName, unknown>> = {
    lendDependencies: release,
    startApp: { mustStand: false },
    stopApp: { mustRun: false },
    awaitSnapshotPlace: operationId,
    takeSnapshot: operationId,
  }
  const placed = (name: StepName) => (name.endsWith('lace') || name === 'takeSnapshot' ? `${queue}/snapshots` : queue)
  return names.map(name => ({ queue: placed(name), name, input: [release, second[name] ?? null] }))
}

test.serial('a host does nothing for a foreign workflow, whatever its input', async t => {
  t.timeout(timeoutMs)
  const { client, db, queuePrefix, make } = await kit
  const host = await realHost('h2')
  try {
    const { deploys: queue, commands } = queuesOfHost(queuePrefix, 'h2')
    const { operationId: _, ...nameless } = (await underWay('h2', 'deploy')).release
    const running = await underWay('h2', 'restart')
    const ended = await underWay('h2', 'deploy')
    await db('operations').where({ id: ended.operationId }).update({ state: 'success' })
    const stranger = await make.user()
    const asked = [
      ...everyStep(queue, { ...nameless, ...forged }, 'f'.repeat(32)),
      ...everyStep(queue, { ...running.release, ...forged, ownerId: stranger.id }, running.operationId),
      ...everyStep(queue, ended.release, ended.operationId),
      { queue: commands, name: 'startApp', input: [running.release, { mustStand: false }] },
    ]
    const ends = await strangerAsks(client, asked)
    for (const [n, end] of ends.entries()) t.like(end, { type: 'ClaimLost', retried: false }, asked[n]!.name)
    t.deepEqual(host.calls, [])
    t.deepEqual(await db('blob_leases').where('subject', 'like', 'snapshot/%'), [], 'no place of the host is taken')
    t.is((await findOperation(db, running.operationId))?.state, 'running')
  } finally {
    await host.stop()
  }
})

test.serial('lane steps are not run for foreign workflows', async t => {
  t.timeout(timeoutMs)
  const { client, db, edge, queuePrefix, make } = await kit
  const queue = platformQueue(queuePrefix)
  const { app, release, operationId } = await underWay('h1', 'delete')
  const route = { host: `${app.subdomain}.apps.localhost`, appId: app.id, address: '127.0.0.1', port: 4321 }
  await edge.setRoute(route)
  const { operationId: _, ...nameless } = release
  const operation = { id: operationId, kind: 'delete', release }
  const waiting = await make.app((await make.user()).id)
  const stolen = { ...nameless, hostname: route.host, hostAddress: '127.0.0.9' }
  const ends = await strangerAsks(client, [
    { queue, name: 'switchRoute', input: [stolen, { hostPort: 666 }] },
    { queue, name: 'removeRoute', input: [stolen] },
    { queue, name: 'routeStands', input: [stolen] },
    { queue, name: 'claimNext', input: [waiting.app.id, { underWay: [] }] },
    { queue, name: 'appDeleted', input: [operation] },
    { queue, name: 'finish', input: [operationId, { state: 'success' }] },
    { queue, name: 'settleDowngrade', input: [app.owner_id] },
  ])
  for (const end of ends) t.like(end, { type: 'ACTION_FAILED', retried: false })
  t.deepEqual(
    (await edge.listRoutes()).filter(({ appId }) => appId === app.id),
    [route],
  )
  t.truthy(await loadApp(db, app.id))
  t.like(await db('operations').where({ id: waiting.operationId }).first(), { state: 'queued', claim: null })
})

test.serial('a lane started by a stranger uses our queues, whatever its input', async t => {
  t.timeout(timeoutMs)
  const { client, db, queuePrefix, make, run, steps } = await kit
  const { app, operationId } = await make.app((await make.user()).id)
  const taskQueue = platformQueue(queuePrefix)
  const args = [{ appId: app.id, idleSeconds: 0.1, queuePrefix: 'elsewhere/' }]
  await client.workflow.start('appLane', { taskQueue, workflowId: `mine/${app.id}`, args })
  t.like(await run.ended(operationId), { state: 'success' })
  t.true(steps(app.id).includes('passHealthGate 1'), 'the host of this installation did it')
  t.is((await loadApp(db, app.id))?.host_port, portOf(app.id, 1))
})
