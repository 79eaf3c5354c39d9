import { cancellationSignal } from '@temporalio/activity'
import { takeBuildSlot } from '../../db/operations/build-slots.ts'
import { recordStep } from '../../db/operations/operations.ts'
import { runtimes } from '../../policy/runtimes.ts'
import type { AppHostOptions } from '../app-host-options.ts'
import { appContainerName, buildContainerName } from '../containers/spec.ts'
import { installPrepared } from '../installs/isolated.ts'
import { fenced } from '../steps/claims.ts'
import type { guardedSteps, Step } from '../steps/guarded-steps.ts'
import type { ReleaseAttempts } from './attempts.ts'
import { bringRelease, recordWords } from './bringing.ts'
import { recordDeployment } from './deployment-state.ts'
import { ensureDiskFor, withinDisk } from './disk.ts'
import { isPreparedFor, lendDependencies, readPrepared, releaseFolders } from './files.ts'
import { imageOfStep } from './image-step.ts'
import { releasePlacement } from './placement-request.ts'
import type { Preparation, Release, StepOf } from './release.ts'

export interface PreparationOptions extends Pick<ReturnType<typeof guardedSteps>, 'begin'> {
  attempts: ReleaseAttempts
  /** Puts the files of a release where the application finds them. */
  place(input: StepOf): Promise<void>
}

/** The steps of a host that bring a release and install its dependencies, alongside the serving version. */
export function releasePreparation(host: AppHostOptions, { begin, attempts, place }: PreparationOptions) {
  const { db, engine, volumes } = host
  const { ownerUid, ownerOf } = releasePlacement(host)
  const fence = fenced(db)
  const foldersOf = (release: Release) => releaseFolders(volumes.path(release.appId), release.number)

  /** Takes one of the host's build slots for this release. */
  async function takeSlotFor(release: Release): Promise<void> {
    if (release.deploymentId) await takeBuildSlot(db, release.deploymentId)
  }

  async function prepare(input: StepOf, signal: AbortSignal): Promise<Preparation> {
    const step = await begin('prepareRelease', input)
    const needsInstall = await bring(step, signal)
    // What replaces a serving release is placed when its turn comes.
    if (needsInstall || step.kind !== 'create') return { needsInstall }
    signal.throwIfAborted()
    await place(input)
    return { needsInstall, placed: true }
  }

  /** Resolves to whether something must be installed. */
  async function bring(step: Step, signal: AbortSignal): Promise<boolean> {
    const release = step.brought()
    const folders = foldersOf(release)
    if (release.source?.kind === 'git') await takeSlotFor(release)
    else await fence(step.operationId, trx => recordStep(trx, step.operationId, 'unpacking'))
    await recordDeployment(db, release, {
      state: 'clone',
      ...(release.source?.kind === 'git' && { branch: release.source.branch }),
    })
    await ensureDiskFor(host, step.kind, release, ownerUid(release))
    const present = await readPrepared(folders)
    if (present && (await isPreparedFor(folders, present, release.deploymentId))) {
      await recordWords(host, release, present)
      return present.install !== null
    }
    // Containers of this name without a matching preparation date from before an older state of the database was restored.
    for (const name of [appContainerName, buildContainerName]) await engine.remove(name(release))
    const prepared = await withinDisk(() => bringRelease(host, release, folders, ownerOf(release), signal), folders)
    return prepared.install !== null
  }

  async function install(input: StepOf, signal: AbortSignal): Promise<void> {
    const step = await begin('installDependencies', input)
    const release = step.brought()
    const folders = foldersOf(release)
    const prepared = await readPrepared(folders)
    if (!prepared?.install) return
    await takeSlotFor(release)
    const image = runtimes[release.language].buildImage(release.runtimeVersion)
    await imageOfStep(host, { operationId: step.operationId, release, image, seconds: null, signal })
    const plan = { ...prepared, install: prepared.install }
    await withinDisk(() => installPrepared(host, release, folders, plan, signal), null)
    await volumes.flush(release.appId)
  }

  return {
    /** Brings the files of a release alongside the serving ones. Those of a new application that installs nothing are placed too. */
    async prepareRelease(input: StepOf): Promise<Preparation> {
      await begin('prepareRelease', input) // before it aborts another attempt, and again when it runs
      return attempts(input, cancellationSignal(), signal => prepare(input, signal))
    },

    /** Runs the install step in a limited build container; its output is the deployment's log. */
    async installDependencies(input: StepOf): Promise<void> {
      await begin('installDependencies', input)
      await attempts(input, cancellationSignal(), signal => install(input, signal))
    },

    /** The serving release uses the dependencies of a later one from its next start on. */
    async lendDependencies(input: StepOf, inputServing: Pick<Release, 'number'>): Promise<void> {
      const step = await begin('lendDependencies', input)
      const serving = step.serving(inputServing.number)
      await lendDependencies(volumes.path(step.appId), serving.number, step.brought().number)
      // Before the outcome is recorded: after a power cut the serving release must find what it uses.
      await volumes.flush(step.appId)
    },
  }
}
