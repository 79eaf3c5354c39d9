import { ApplicationFailure, CancellationScope, patched, sleep } from '@temporalio/workflow'
import type { LaneOperation, Serving } from '../activities/releases/release.ts'
import { ignoreError } from '../lib/async/ignore-error.ts'
import { failureOf } from './failures.ts'
import { startHealthy } from './healthy-release.ts'
import { type Host, records, removeRoute, switchRoute } from './lane-steps.ts'
import type { Exclusive } from './locks.ts'
import { awaitRoute, leftToKeeper } from './route-copy.ts'
import { type Undo, undoable } from './undo.ts'

/** Time for the old version to answer the requests that it has already received. */
const drainSeconds = 5

/**
 * A commit, push, upload or snapshot becomes the serving version, or the previous version keeps serving. Fetching and building happen
 * alongside the application's other operations; only the change of versions is exclusive.
 */
export async function deploy(claimed: LaneOperation, host: Host, exclusive: Exclusive): Promise<void> {
  try {
    const operation = await prepare(claimed, host)
    await exclusive(() => change(operation, host))
  } catch (error) {
    await CancellationScope.nonCancellable(async () => {
      await records.deployFailed(claimed, failureOf(error))
      await host.command.discardRelease(claimed.release).catch(ignoreError('the next release removes its folder'))
    })
  }
}

/** Brings the files of the release alongside the serving ones, and installs their dependencies. */
async function prepare(claimed: LaneOperation, { build, slot }: Host): Promise<LaneOperation> {
  const { id, release } = claimed
  const git = release.source?.kind === 'git'
  if (git) await records.waitForSlot(claimed)
  else if (!patched('unpacking-told-by-host')) await records.recordStep(id, 'unpacking')
  const prepared = git ? await slot.prepareRelease(release) : await build.prepareRelease(release)
  const operation = await records.decideAgain(id)
  if (prepared.needsInstall) {
    await records.waitForSlot(operation)
    await slot.installDependencies(operation.release)
  }
  return operation
}

/** Until the new version serves, every step can be undone; afterwards the old one is only retired. */
async function change(operation: LaneOperation, host: Host): Promise<void> {
  const { id, release } = operation
  const inOneCommit = patched('change-begins-in-one-commit')
  if (!inOneCommit) await records.recordChange(id)
  const before = await (inOneCommit ? records.beginChange(operation) : records.serving(operation))
  const recordRollback = () => records.recordReturn(operation)
  const changed = await undoable(recordRollback, async undo => {
    if (before.running && !release.hostname) undo('start the version before', () => startAgain(operation, before, host))
    if (release.deploymentId) {
      undo('put back the configuration', () => records.revertConfig(operation))
      if (!inOneCommit) await records.adoptConfig(operation)
    }
    undo('put back the files', () => host.untilDone.restoreFiles(release))
    await host.build.placeFiles(release)
    if (!release.restart) {
      await host.build.lendDependencies(release, before.release)
      await records.filesServe(operation)
      return null
    }
    if (operation.kind === 'restore' && before.stopped) {
      await records.releaseStands(operation)
      return null
    }
    return changePrograms(operation, before, host, undo)
  })
  if (!release.restart) return
  await CancellationScope.nonCancellable(async () => {
    // A proxy that comes back sends requests to the old version until it gets the new route; the host watch removes that version later.
    const routed = !changed || changed.routed || (await awaitRoute(release))
    await retire(operation, routed ? before : null, host)
  })
}

/** Web applications answer throughout: two versions run concurrently. Programs without a port never run twice. */
async function changePrograms(
  operation: LaneOperation,
  before: Serving,
  host: Host,
  undo: Undo,
): Promise<{ routed: boolean }> {
  const { release } = operation
  const { command, patient } = host
  if (before.running && !release.hostname) await command.stopApp(before.release, { mustRun: false })
  undo(null, () => patient.removeContainer(release)) // the host watch removes a release that does not serve
  const { started, unhealthy } = await startHealthy(host, release)
  if (unhealthy) throw ApplicationFailure.nonRetryable(unhealthy.reason, 'HEALTH_CHECK_FAILED')
  undo(null, () => routeBack(before))
  const routed = await switchRoute(release, started).then(() => true, leftToKeeper)
  await records.releaseServes(operation, started)
  return { routed }
}

async function routeBack({ release, hostPort }: Serving): Promise<void> {
  if (hostPort === null) await removeRoute(release)
  else await switchRoute(release, { hostPort })
}

async function startAgain(operation: LaneOperation, { release }: Serving, { patient }: Host): Promise<void> {
  const started = await patient.startApp(release, { mustStand: false })
  await records.recordStarted(operation, release.number, started)
}

/** Retires the old version, which gets no more requests; null = it may get more. What cannot be removed now is swept by the host. */
async function retire({ release }: LaneOperation, before: Serving | null, { command }: Host): Promise<void> {
  if (before && before.release.number !== release.number) {
    if (before.running && release.hostname) await sleep(drainSeconds * 1000)
    await command.stopApp(before.release, { mustRun: false }).catch(ignoreError('the host sweeps it'))
    await command.removeContainer(before.release).catch(ignoreError('the host sweeps it'))
  }
  await command.settleFiles(release).catch(ignoreError('the host sweeps it'))
}
