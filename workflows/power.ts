import { ApplicationFailure, patched } from '@temporalio/workflow'
import type { ContainerExit, LaneOperation, StartedContainer } from '../activities/releases/release.ts'
import { ignoreError } from '../lib/async/ignore-error.ts'
import { commandSeconds } from '../policy/apps/command-times.ts'
import { exitBefore, failureOf } from './failures.ts'
import { type Host, quickly, records, showStarting } from './lane-steps.ts'
import { leftToKeeper } from './route-copy.ts'

/** Starts the container of the serving release and its route. A container that a failed start has left is adopted. */
export async function start(operation: LaneOperation, host: Host): Promise<void> {
  const { release, wasRunning } = operation
  const command = host.commandWithin(await secondsFor(operation, operation.found))
  // An application that counts as running keeps its route until it is known to have ended. A failed start is shown by its outcome.
  if (patched('shown-while-starting') && !wasRunning) await showStarting(operation)
  const started = await command.startApp(release, { mustStand: wasRunning })
  await serves(operation, started)
}

/** The route, and with it the outcome that the caller awaits. */
async function serves(operation: LaneOperation, started: StartedContainer): Promise<void> {
  if (patched('route-with-outcome')) {
    const isServing = await quickly.appServes(operation, started).then(() => true, leftToKeeper)
    if (isServing) return
  } else await quickly.switchRoute(operation.release, started).catch(leftToKeeper)
  await records.appStarted(operation, started)
}

/** Stops the container, which is then the desired state. */
export async function stop(operation: LaneOperation, host: Host): Promise<void> {
  const command = host.commandWithin(await secondsFor(operation, operation.found))
  await records.recordDesired(operation, 'stopped') // before the container ends, so that its end does not count as a crash
  let exit: ContainerExit
  try {
    exit = await command.stopApp(operation.release, { mustRun: true })
  } catch (error) {
    const stopped = failureOf(error).code === 'CONTAINER_ALREADY_STOPPED'
    if (!stopped && operation.wasDesired === 'running') await records.recordDesired(operation, 'running')
    throw error
  }
  await quickly.removeRoute(operation.release).catch(leftToKeeper)
  await records.appStopped(operation, exit)
}

/** One stop and one start, with nothing in between. Its claim has shown it, and its end reverts what is shown. */
export async function restart(operation: LaneOperation, host: Host): Promise<void> {
  const { release } = operation
  const seconds = await secondsFor(operation, operation.found)
  // One attempt has all of it, since it stops, waits for an image and starts.
  const command = host.commandWithin(seconds, seconds)
  if (!operation.shown) await showRestarting(operation, 'restarting', 'stopping the container')
  let exit: ContainerExit | null = null
  try {
    const stopped = await command.stopApp(release, { mustRun: false, thenStart: true })
    exit = stopped
    const started = stopped.started ?? (await startStopped(operation, host))
    if (!(stopped.recorded && patched('restart-recorded-by-host'))) await serves(operation, started)
  } catch (error) {
    exit ??= exitBefore(error)
    if (exit) await endStopped(operation, exit)
    else if (!operation.shown)
      await showRestarting(operation, operation.wasRunning ? 'running' : 'exited', 'the container was not stopped')
    throw error
  }
}

/** For claims of an older version. */
function showRestarting({ id, release }: LaneOperation, status: 'restarting' | 'running' | 'exited', words: string) {
  return records.recordStatus(release.appId, status, { operationId: id, words })
}

/** For hosts of an older version. */
async function startStopped(operation: LaneOperation, host: Host): Promise<StartedContainer> {
  const command = host.commandWithin(await secondsFor(operation))
  return command.startApp(operation.release, { mustStand: false })
}

/** The container was stopped for a restart, and is not started. */
async function endStopped(operation: LaneOperation, exit: ContainerExit): Promise<void> {
  const { release } = operation
  // Independent of the proxy: until the row changes, the application is shown as restarting.
  if (patched('stopped-before-route')) {
    await records.recordStopped(operation, exit)
    await quickly.removeRoute(release).catch(leftToKeeper)
  } else {
    await quickly.removeRoute(release)
    await records.recordStopped(operation, exit)
  }
}

/** Removes the container first: until then the deletion can fail without a loss; once the row is deleted it is final. */
export async function remove(operation: LaneOperation, host: Host): Promise<void> {
  const { release, id } = operation
  const command = host.commandWithin(await secondsFor(operation))
  if (patched('shown-while-deleting'))
    await records.recordStatus(release.appId, 'deleting', { operationId: id, words: 'removing the containers' })
  await command.removeContainers(release)
  await quickly.removeRoute(release).catch(leftToKeeper)
  const oneCommit = patched('deletion-is-one-commit')
  await records.appDeleted(operation)
  // No caller waits for this any more, and the host sweeps folders of deleted applications.
  await host.build.removeFiles(release).catch(ignoreError('the host sweeps it'))
  if (!oneCommit) await records.finish(id, { state: 'success' })
}

/**
 * Max seconds of a step at the host, so that it ends while the caller still waits. Throws ACTION_FAILED when too little time is left:
 * what was answered as a failure must not succeed later. `found` is what the claim has found, as long as no other step came after it.
 */
async function secondsFor({ id }: LaneOperation, findings?: LaneOperation['found']): Promise<number> {
  if (!patched('command-ends')) return commandSeconds.step
  const left = findings ? findings.secondsLeft : await records.secondsLeft(id)
  if (left === null) return commandSeconds.step
  const seconds = Math.floor(left) - commandSeconds.route - commandSeconds.outcome
  if (seconds < commandSeconds.min)
    throw ApplicationFailure.nonRetryable('There was not enough time left to do it.', 'ACTION_FAILED')
  return Math.min(commandSeconds.step, seconds)
}
