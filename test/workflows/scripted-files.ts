import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cancellationSignal } from '@temporalio/activity'
import type { AppHostActivities } from '../../activities/app-host.ts'
import { refusal } from '../../activities/failures.ts'
import type { Release, StepOf } from '../../activities/releases/release.ts'
import { recordStatus } from '../../db/apps/apps.ts'
import { appendLog } from '../../db/deploys/deployments.ts'
import { allocateSegment } from '../../db/objects/segments.ts'
import { takeBuildSlot } from '../../db/operations/build-slots.ts'
import type { StoredSnapshot } from '../../db/snapshots/snapshots.ts'
import { containerStarts, type containerSteps } from './scripted-containers.ts'
import type { ScriptedParts } from './scripted-parts.ts'

/** The file steps of a scripted host. */
export function fileSteps(parts: ScriptedParts): Omit<AppHostActivities, keyof ReturnType<typeof containerSteps>> {
  const { db, at, meet, reached, installs, onlyPlaces, begin, beginAfter, turn, lateTurn } = parts
  const { startBrought } = containerStarts(parts)

  async function install(release: Release): Promise<void> {
    const trouble = meet('installDependencies', release)
    if (release.deploymentId) await takeBuildSlot(db, release.deploymentId)
    if (trouble === 'it never ends') await untilEnded(parts, release.appId, cancellationSignal())
    if (trouble !== 'the install step fails') return
    if (release.deploymentId) await appendLog(db, release.deploymentId, 'no such package\n')
    throw refusal('BUILD_FAILED', 'Installing the dependencies ended with exit code 1.')
  }

  async function place(input: StepOf): Promise<void> {
    const release = await turn('placeFiles', input, async step => {
      const brought = step.brought()
      meet('placeFiles', brought)
      at(input.appId).place(input.number)
      return brought
    })
    await reached(release, 'commit')
  }

  return {
    async prepareRelease(input) {
      const step = await begin('prepareRelease', input)
      const release = step.brought()
      if (release.source?.kind === 'git' && release.deploymentId) await takeBuildSlot(db, release.deploymentId)
      await reached(release, 'clone')
      meet('prepareRelease', release)
      if (step.kind === 'create') at(release.appId).disk = true
      const needsInstall = installs(release)
      if (needsInstall || step.kind !== 'create') return { needsInstall }
      await place(input)
      if (onlyPlaces(release)) return { needsInstall, placed: true }
      await recordStatus(db, release.appId, 'starting')
      return { needsInstall, placed: true, started: await startBrought(release) }
    },

    async installDependencies(input) {
      const release = (await begin('installDependencies', input)).brought()
      if (installs(release)) await install(release)
    },

    placeFiles: place,

    async restoreFiles(input) {
      await turn('restoreFiles', input, async step => {
        const { appId, number } = step.brought()
        meet('restoreFiles', input)
        at(appId).takeBack(number)
      })
    },

    async settleFiles(input) {
      await lateTurn('settleFiles', input, async step => at(input.appId).settle(step.brought().number))
    },

    async lendDependencies(input, serving) {
      const step = await begin('lendDependencies', input)
      step.serving(serving.number)
      step.brought()
    },

    async discardRelease(input) {
      await lateTurn('discardRelease', input, async step => {
        step.spent()
        meet('discardRelease', input)
        if (step.isDeleted) return
        step.brought()
        at(input.appId).takeBack(input.number)
      })
    },

    async removeFiles(input) {
      const { appId, kind, isDeleted, running } = await beginAfter('removeFiles', input)
      if (!isDeleted && !(running && kind === 'create')) throw refusal('ACTION_FAILED', 'It is not deleted yet.')
      at(appId).removeContainers()
      at(appId).removeDisk()
    },
  }
}

/** Copies the current files of an application: equal files have the same digest, and each copy has its own segment. */
export async function copyFiles(parts: ScriptedParts, input: StepOf, signal: AbortSignal): Promise<StoredSnapshot> {
  if (parts.meet('takeSnapshot', input) === 'it never ends') await untilEnded(parts, input.appId, signal)
  const text = `${input.appId} ${parts.at(input.appId).files}`
  const digest = createHash('sha256').update(text).digest('hex')
  return { segmentId: await allocateSegment(parts.db), size: 10, sha256: digest, digest }
}

async function untilEnded({ at }: ScriptedParts, appId: string, signal: AbortSignal): Promise<never> {
  const app = at(appId)
  app.busy++
  if (!signal.aborted) await once(signal, 'abort')
  app.busy--
  throw new Error('It was ended.')
}
