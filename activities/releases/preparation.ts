import { cancellationSignal } from '@temporalio/activity'
import * as apps from '../../db/apps/apps.ts'
import { takeBuildSlot } from '../../db/operations/build-slots.ts'
import { recordStep } from '../../db/operations/operations.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { appContainerName, buildContainerName, tenantNetwork } from '../containers/spec.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
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
import type { Preparation, Release, StartedContainer, StepOf } from './release.ts'
import type { ReadyStart } from './starting.ts'

export interface PreparationOptions extends Pick<ReturnType<typeof guardedSteps>, 'begin'> {
  attempts: ReleaseAttempts
  /** Puts the files of a release where the application finds them. */
  place(input: StepOf): Promise<void>
  /** Makes ready what starts the container of a release, and creates it. */
  create(step: Step, signal: AbortSignal): Promise<ReadyStart>
  /** Starts the container of a release that is placed. */
  startBrought(step: Step, signal: AbortSignal, ready: ReadyStart): Promise<StartedContainer>
}

/** The steps of a host that bring a release and install its dependencies, alongside the serving version. */
export function releasePreparation(host: AppHostOptions, options: PreparationOptions) {
  const { begin, attempts, place, create, startBrought } = options
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
    const network = tenantNetwork(step.ownerId, host.traits.id)
    // The first application of an account has to wait for one.
    const [needsInstall] = await allEnded([
      bring(step, signal),
      step.kind === 'create' ? engine.ensureNetwork(network) : null,
    ])
    // What replaces a serving release is placed when its turn comes.
    if (needsInstall || step.kind !== 'create') return { needsInstall }
    signal.throwIfAborted()
    const failed = new AbortController() // a full disk is reported without waiting for an image
    const placing = place(input).catch(error => {
      failed.abort(error)
      throw error
    })
    const [, ready] = await allEnded([placing, create(step, AbortSignal.any([signal, failed.signal]))])
    signal.throwIfAborted()
    const [started] = await allEnded([startBrought(step, signal, ready), showStarting(step)])
    return { needsInstall, placed: true, started }
  }

  /** The outcome of the operation replaces what is shown. */
  async function showStarting({ operationId, appId }: Step): Promise<void> {
    await fence(operationId, async trx => {
      await apps.recordStatus(trx, appId, 'starting')
      await recordStep(trx, operationId, 'starting the container')
    })
  }

  /** Resolves to whether something must be installed. */
  async function bring(step: Step, signal: AbortSignal): Promise<boolean> {
    const release = step.brought()
    const folders = foldersOf(release)
    await allEnded([showBringing(step, release), ensureDiskFor(host, step.kind, release, ownerUid(release))])
    const present = await readPrepared(folders)
    if (present && (await isPreparedFor(folders, present, release.deploymentId))) {
      await recordWords(host, release, present)
      return present.install !== null
    }
    // Containers of this name without a matching preparation date from before an older state of the database was restored.
    await allEnded([appContainerName, buildContainerName].map(name => engine.remove(name(release))))
    const prepared = await withinDisk(() => bringRelease(host, release, folders, ownerOf(release), signal), folders)
    return prepared.install !== null
  }

  async function showBringing({ operationId }: Step, release: Release): Promise<void> {
    const branch = release.source?.kind === 'git' && { branch: release.source.branch }
    if (branch) await takeSlotFor(release)
    else await fence(operationId, trx => recordStep(trx, operationId, 'unpacking'))
    await recordDeployment(db, release, { state: 'clone', ...branch })
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
    /** Brings the files of a release alongside the serving ones. A new application that installs nothing is placed and started too. */
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
