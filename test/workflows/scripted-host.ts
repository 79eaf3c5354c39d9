import { cancellationSignal } from '@temporalio/activity'
import type { AppHostActivities } from '../../activities/app-host.ts'
import type { AppSnapshotActivities } from '../../activities/app-snapshots.ts'
import { hosted } from '../../activities/failures.ts'
import type { Release } from '../../activities/releases/release.ts'
import { retriedRestore } from '../../activities/steps/restored-files.ts'
import type { StepName } from '../../policy/apps/step-kinds.ts'
import { containerSteps } from './scripted-containers.ts'
import { copyFiles, fileSteps } from './scripted-files.ts'
import { type HostScript, type ScriptedHostOptions, scriptedParts } from './scripted-parts.ts'
import { StepLog } from './step-log.ts'

type HostActivities = AppHostActivities & AppSnapshotActivities

/**
 * A container host in memory, for lanes. What it answers, how it fails and what is left at it is held to the same contract as a real
 * one (test/contracts/host-activities.ts); a test may come before and after the effect of each step.
 */
export function scriptedHost(options: ScriptedHostOptions, script: HostScript = {}) {
  const parts = scriptedParts(options, script)
  const { db, hostId, places, begin } = parts
  const log = new StepLog()
  const steps = { ...fileSteps(parts), ...containerSteps(parts) }

  /** Runs the effect of a step between the hooks of the test, and counts it as running. */
  function inScript<T>(name: StepName, input: unknown, effect: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const release = input as Release // lanes send all of it
    return log.during(release, name, async () => {
      await script.before?.[name]?.(release, signal)
      const answer = await effect()
      await script.after?.[name]?.(release, signal)
      return answer
    })
  }

  const scripted = Object.entries(steps).map(([name, step]) => [
    name,
    (input: Release, ...rest: never[]) =>
      inScript(name as StepName, input, () => (step as Step)(input, ...rest), cancellationSignal()),
  ])
  const { restoreFiles, ...others }: AppHostActivities = Object.fromEntries(scripted)

  const activities: HostActivities = {
    ...others,
    stopApp: (input, { thenStart, ...terms }) =>
      others.stopApp(input, { ...terms, ...(!script.onlyStops?.(input as Release) && { thenStart }) }),
    restoreFiles: input => retriedRestore(db, input, () => restoreFiles(input)),
    /** Waiting does not count as a step of the host. */
    async awaitSnapshotPlace(input, operationId) {
      const { ownerId } = await begin('awaitSnapshotPlace', { ...input, operationId })
      await places.wait({ hostId, operationId, ownerId }, cancellationSignal())
    },
    async takeSnapshot(input, operationId) {
      ;(await begin('takeSnapshot', { ...input, operationId })).served()
      return places.holding({ hostId, operationId }, cancellationSignal(), signal =>
        inScript('takeSnapshot', input, () => copyFiles(parts, input, signal), signal),
      )
    },
  }
  return { activities: hosted(activities), at: parts.at, log }
}

type Step = (input: Release, ...rest: never[]) => Promise<unknown>
