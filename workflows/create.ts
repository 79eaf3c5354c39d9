import { CancellationScope, patched } from '@temporalio/workflow'
import type { Unhealthy } from '../activities/app-host.ts'
import type { LaneOperation } from '../activities/releases/release.ts'
import { failureOf } from './failures.ts'
import { startHealthy } from './healthy-release.ts'
import { type Host, records, removeRoute, showStarting, switchRoute } from './lane-steps.ts'
import { leftToKeeper } from './route-copy.ts'
import { undoable } from './undo.ts'

/** A stored archive becomes a running application, or leaves nothing but the reason of its failure. */
export async function create(operation: LaneOperation, host: Host): Promise<void> {
  const { release } = operation
  const { build, command, patient, slot } = host
  try {
    await undoable(null, async undo => {
      // The host's sweep removes what could not be undone.
      undo(null, () => command.removeFiles(release))
      const prepared = await build.prepareRelease(release)
      if (prepared.needsInstall) {
        await records.waitForSlot(operation)
        await slot.installDependencies(release)
      }
      if (!prepared.placed) await build.placeFiles(release)
      undo(null, () => command.removeContainers(release))
      // Workers of an older version have started it once more.
      const earlierStart = prepared.started && patched('started-with-its-files') ? prepared.started : undefined
      if (!earlierStart && patched('shown-while-starting')) await showStarting(operation)
      const { started, unhealthy } = await startHealthy(host, release, earlierStart)
      if (unhealthy) return keepStopped(operation, patched('stopped-in-time') ? patient : command, unhealthy)
      undo(null, () => removeRoute(release))
      await switchRoute(release, started).catch(leftToKeeper)
      await records.releaseServes(operation, started)
    })
  } catch (error) {
    await CancellationScope.nonCancellable(() => records.provisioningFailed(operation, failureOf(error)))
  }
}

/** Only its owner can fix a program that does not stay up: the application stays, stopped, with its files and logs. */
async function keepStopped(operation: LaneOperation, host: Host['patient'], unhealthy: Unhealthy): Promise<void> {
  const end = unhealthy.exit ?? (await host.stopApp(operation.release, { mustRun: false }))
  await records.releaseFailed(operation, end, { code: 'HEALTH_CHECK_FAILED', message: unhealthy.reason })
}
