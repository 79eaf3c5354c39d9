import {
  ActivityCancellationType,
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { AppHostActivities, Unhealthy } from '../activities/app-host.ts'
import type { EdgeActivities } from '../activities/edge-routes.ts'
import type { Records } from '../activities/records.ts'
import type { ContainerExit, LaneOperation } from '../activities/release.ts'
import { attributes } from './attributes.ts'
import { failureOf } from './failures.ts'
import { undoable } from './undo.ts'

export interface LaneInput {
  appId: string
  /** How long an idle lane stays, in seconds. */
  idleSeconds: number
  queuePrefix: string
}

/** Something was queued for this application. */
export const wake = defineSignal('wake')

const records = proxyLocalActivities<Records>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '5s' },
})
const { switchRoute, removeRoute } = proxyLocalActivities<EdgeActivities>({
  startToCloseTimeout: '5s',
  retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 10 },
})

/** Runs the operations of one application one after another, oldest first, and ends after some idleness. */
export async function appLane(lane: LaneInput): Promise<void> {
  let wakeUps = 0
  let interrupt: () => void = () => {}

  setHandler(wake, async () => {
    wakeUps++
    const cancel = interrupt
    if (await records.deletionWaits(lane.appId)) cancel()
  })

  for (;;) {
    const seen = wakeUps
    const operation = await records.claimNext(lane.appId)
    if (operation) {
      const scope = new CancellationScope()
      if (operation.kind === 'create') interrupt = () => scope.cancel()
      await run(lane, operation, scope)
      interrupt = () => {}
      if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof appLane>(lane)
      continue
    }
    await condition(() => wakeUps > seen, lane.idleSeconds * 1000)
    if (wakeUps === seen) return
  }
}

async function run(lane: LaneInput, operation: LaneOperation, scope: CancellationScope): Promise<void> {
  const { release, kind, id } = operation
  upsertSearchAttributes(
    attributes({ hostId: release.hostId, operationKind: kind, deploymentId: release.deploymentId }),
  )
  setCurrentDetails(`${kind} of application ${release.appId} on host ${release.hostId}, operation ${id}`)
  const host = hostOf(lane, operation)
  await scope
    .run(() => stories[kind](operation, host))
    .catch(error => CancellationScope.nonCancellable(() => records.finish(id, { state: 'error', ...failureOf(error) })))
  setCurrentDetails(`idle; last was ${kind}, operation ${id}`)
}

type Story = (operation: LaneOperation, host: Host) => Promise<void>

const stories: Record<LaneOperation['kind'], Story> = { create, deploy, start, stop, restart, delete: remove }

async function deploy(): Promise<void> {
  throw ApplicationFailure.nonRetryable('Deploys are not carried out yet.', 'DEPLOY_FAILED')
}

/** A stored archive becomes a running application, or leaves nothing behind but its reason. */
async function create(operation: LaneOperation, { build, command }: Host): Promise<void> {
  const { release } = operation
  try {
    await undoable(async undo => {
      undo(() => command.removeFiles(release))
      const prepared = await build.prepareRelease(release)
      if (prepared.needsInstall) await build.installDependencies(release)
      await build.placeFiles(release)
      undo(() => command.removeContainers(release))
      const started = await build.startRelease(release)
      const unhealthy = await build.passHealthGate(release, started)
      if (unhealthy) return keepStopped(operation, command, unhealthy)
      undo(() => removeRoute(release))
      await switchRoute(release, started)
      await records.releaseServes(operation, started)
    })
  } catch (error) {
    await CancellationScope.nonCancellable(() => records.provisioningFailed(operation, failureOf(error)))
  }
}

/** A program that does not stay up is its owner's to mend: the application stays, stopped, with its files and logs. */
async function keepStopped(
  operation: LaneOperation,
  command: Host['command'],
  { reason, exit }: Unhealthy,
): Promise<void> {
  const end = exit ?? (await command.stopApp(operation.release, { mustRun: false }))
  await records.releaseFailed(operation, end, { code: 'HEALTH_CHECK_FAILED', message: reason })
}

async function start(operation: LaneOperation, { command }: Host): Promise<void> {
  const started = await command.startApp(operation.release)
  await switchRoute(operation.release, started)
  await records.appStarted(operation, started)
}

async function stop(operation: LaneOperation, { command }: Host): Promise<void> {
  const { appId } = operation.release
  await records.recordDesired(appId, 'stopped') // before the container ends, so that its end is not taken for a crash
  let exit: ContainerExit
  try {
    exit = await command.stopApp(operation.release, { mustRun: true })
  } catch (error) {
    const stopped = failureOf(error).code === 'CONTAINER_ALREADY_STOPPED'
    if (!stopped && operation.wasDesired === 'running') await records.recordDesired(appId, 'running')
    throw error
  }
  await removeRoute(operation.release)
  await records.appStopped(operation, exit)
}

async function restart(operation: LaneOperation, { command }: Host): Promise<void> {
  const { release, id } = operation
  await records.recordStatus(release.appId, 'restarting', { operationId: id, words: 'stopping the container' })
  const exit = await command.stopApp(release, { mustRun: false }).catch(async error => {
    const before = operation.wasRunning ? 'running' : 'exited'
    await records.recordStatus(release.appId, before, { operationId: id, words: 'the container was not stopped' })
    throw error
  })
  try {
    const started = await command.startApp(release)
    await switchRoute(release, started)
    await records.appStarted(operation, started)
  } catch (error) {
    await removeRoute(release)
    await records.recordStopped(release.appId, exit)
    throw error
  }
}

/** The container goes first: until it is gone the deletion can fail and nothing is lost; after the row is gone it is final. */
async function remove(operation: LaneOperation, { command, build }: Host): Promise<void> {
  const { release, id } = operation
  await command.removeContainers(release)
  await removeRoute(release)
  await records.appDeleted(release.appId)
  await build.removeFiles(release).catch(() => {}) // the host sweeps folders of applications that are gone
  await records.finish(id, { state: 'success' })
}

type Host = ReturnType<typeof hostOf>

/** The host's activities, once with the deadlines of a person who waits and once with those of a deployment. */
function hostOf(lane: LaneInput, { release }: LaneOperation) {
  const taskQueue = `${lane.queuePrefix}host/${release.hostId}`
  const cancellationType = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
  const command = proxyActivities<AppHostActivities>({
    taskQueue,
    cancellationType,
    scheduleToStartTimeout: '8s',
    startToCloseTimeout: '40s',
    scheduleToCloseTimeout: '55s',
    heartbeatTimeout: '15s',
    retry: { initialInterval: '300ms', maximumAttempts: 3 },
  })
  const build = proxyActivities<AppHostActivities>({
    taskQueue,
    cancellationType,
    scheduleToStartTimeout: '30m',
    startToCloseTimeout: '20m',
    heartbeatTimeout: '15s',
    retry: { initialInterval: '500ms', maximumInterval: '15s', maximumAttempts: 20 },
  })
  return { command, build }
}
