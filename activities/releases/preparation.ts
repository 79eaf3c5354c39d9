import { cancellationSignal } from '@temporalio/activity'
import * as deployments from '../../db/deploys/deployments.ts'
import { takeBuildSlot } from '../../db/operations/build-slots.ts'
import type { AppHostOptions } from '../app-host-options.ts'
import { appContainerName, buildContainerName } from '../containers/spec.ts'
import type { stepTurns } from '../steps/step-turns.ts'
import type { ReleaseAttempts } from './attempts.ts'
import { bringRelease } from './bringing.ts'
import { ensureDiskFor, withinDisk } from './disk.ts'
import { isPreparedFor, lendDependencies, readPrepared, releaseFolders } from './files.ts'
import { installRelease } from './install.ts'
import { releasePlaces } from './places.ts'
import type { Release, StepOf } from './release.ts'

export interface PreparationOptions extends Pick<ReturnType<typeof stepTurns>, 'begin'> {
  attempts: ReleaseAttempts
}

/** The steps of a host that bring a release and install what it needs, alongside the version that serves. */
export function releasePreparation(host: AppHostOptions, { begin, attempts }: PreparationOptions) {
  const { db, engine, volumes } = host
  const { ownerUid, ownerOf } = releasePlaces(host)
  const foldersOf = (release: Release) => releaseFolders(volumes.path(release.appId), release.number)

  /** Takes one of the host's build slots for this release. */
  async function building(release: Release): Promise<void> {
    if (release.deploymentId) await takeBuildSlot(db, release.deploymentId)
  }

  async function prepare(asked: StepOf, signal: AbortSignal): Promise<{ needsInstall: boolean }> {
    const step = await begin('prepareRelease', asked)
    const release = step.brought()
    const folders = foldersOf(release)
    if (release.source?.kind === 'git') await building(release)
    if (release.deploymentId)
      await deployments.recordDeploymentStep(db, release.deploymentId, {
        state: 'clone',
        ...(release.source?.kind === 'git' && { branch: release.source.branch }),
      })
    await ensureDiskFor(host, step.kind, release, ownerUid(release))
    const done = await readPrepared(folders)
    if (done && (await isPreparedFor(folders, done, release.deploymentId)))
      return { needsInstall: done.install !== null }
    // What has its name and was not prepared for it is of a time that the database has forgotten.
    for (const name of [appContainerName, buildContainerName]) await engine.remove(name(release))
    const prepared = await withinDisk(() => bringRelease(host, release, folders, ownerOf(release), signal), folders)
    return { needsInstall: prepared.install !== null }
  }

  async function install(asked: StepOf, signal: AbortSignal): Promise<void> {
    const release = (await begin('installDependencies', asked)).brought()
    const folders = foldersOf(release)
    const prepared = await readPrepared(folders)
    if (!prepared?.install) return
    await building(release)
    const { install } = prepared
    await withinDisk(() => installRelease(host, release, folders, install, signal), null)
    await volumes.flush(release.appId)
  }

  return {
    /** Brings the files of a release alongside the ones that serve; resolves to whether something has to be installed. */
    async prepareRelease(asked: StepOf): Promise<{ needsInstall: boolean }> {
      await begin('prepareRelease', asked) // before it ends another attempt, and again when it runs
      return attempts(asked, cancellationSignal(), signal => prepare(asked, signal))
    },

    /** Runs the install step in a limited build container; its output is the deployment's log. */
    async installDependencies(asked: StepOf): Promise<void> {
      await begin('installDependencies', asked)
      await attempts(asked, cancellationSignal(), signal => install(asked, signal))
    },

    /** The release that serves goes on, and takes what a later one has installed from its next start on. */
    async lendDependencies(asked: StepOf, askedServing: Pick<Release, 'number'>): Promise<void> {
      const step = await begin('lendDependencies', asked)
      const serving = step.serving(askedServing.number)
      await lendDependencies(volumes.path(step.appId), serving.number, step.brought().number)
      // The outcome follows: after a power cut the release that serves must find what it uses.
      await volumes.flush(step.appId)
    },
  }
}
