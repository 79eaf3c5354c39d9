import { activityInfo, cancellationSignal } from '@temporalio/activity'
import * as apps from '../db/apps/apps.ts'
import * as deployments from '../db/deploys/deployments.ts'
import { ignoreError } from '../lib/async/ignore-error.ts'
import { KiB } from '../lib/bytes.ts'
import { commandImageSeconds } from '../policy/hosts/host-slots.ts'
import type { AppHostOptions } from './app-host-options.ts'
import { type ListedContainer, labels } from './containers/port.ts'
import {
  appContainer,
  appContainerName,
  buildContainerName,
  fingerprinted,
  stopGraceSeconds,
  tenantNetwork,
} from './containers/spec.ts'
import { removeTenant } from './containers/tenant.ts'
import { hosted, refusal } from './failures.ts'
import { releaseAttempts } from './releases/attempts.ts'
import { recordDeployment } from './releases/deployment-state.ts'
import { withinDisk } from './releases/disk.ts'
import { dependenciesOf, releaseFolders } from './releases/files.ts'
import { exitOf, passGate, takenDown, type Unhealthy } from './releases/health-gate.ts'
import { imageOfStep } from './releases/image-step.ts'
import { releasePlacement } from './releases/placement-request.ts'
import { releasePreparation } from './releases/preparation.ts'
import type { ContainerExit, Release, StartedContainer, StepOf } from './releases/release.ts'
import { startContainer } from './releases/start.ts'
import { guardedSteps } from './steps/guarded-steps.ts'
import { retriedRestore } from './steps/restored-files.ts'

export type { Unhealthy } from './releases/health-gate.ts'
export type AppHostActivities = ReturnType<typeof appHostActivities>

/** The steps of a container host for one application. Every effect is named by ids, so each step may be repeated. */
export function appHostActivities(host: AppHostOptions) {
  const { db, engine, volumes, placement } = host
  const { assertCurrent, begin, beginAfter, beginLate, turn, lateTurn } = guardedSteps(host)
  const foldersOf = (release: Release) => releaseFolders(volumes.path(release.appId), release.number)
  const { ownerUid, placementOf } = releasePlacement(host)
  const attempts = releaseAttempts()
  const preparation = releasePreparation(host, { begin, attempts, place })

  async function place(input: StepOf): Promise<void> {
    const { release, files } = await turn('placeFiles', input, async step => {
      const release = step.brought()
      const files = await withinDisk(() => placement.place(placementOf(release)), null)
      await volumes.flush(release.appId)
      return { release, files }
    })
    await recordDeployment(db, release, { state: 'commit', files })
  }

  /** Starts a release. A command waits at most `seconds` for its image. */
  async function run(
    name: 'startRelease' | 'startApp',
    { operationId, release }: { operationId: string; release: Release },
    seconds: number | null,
  ): Promise<StartedContainer> {
    const folders = foldersOf(release)
    const uid = ownerUid(release)
    const { version, values } = await host.variables(release)
    await volumes.ensure(release.appId, release.diskMb, uid, 'before')
    const dependencies = await dependenciesOf(volumes.path(release.appId), release.number)
    const disk = await host.disk?.(release.appId)
    const places = { files: folders.files, dependencies }
    const spec = fingerprinted({ ...appContainer({ ...release, uid }, places, values, host.traits), disk })
    await engine.ensureNetwork(tenantNetwork(release.ownerId, host.traits.id))
    await imageOfStep(host, { operationId, release, image: spec.image, seconds, signal: cancellationSignal() })
    const bootId = await host.boot.settle()
    if (spec.publish) await host.routed?.(cancellationSignal())
    const alone = release.hostname === null
    const started = await turn(name, release, step =>
      startContainer(engine, spec, { alone, assertCurrent: () => assertCurrent(step) }),
    )
    const { hostPort, hostAddress } = started
    if (hostPort !== null) await apps.clearPortOfOthers(db, release.appId, hostPort, hostAddress)
    return { ...started, bootId, variablesVersion: version }
  }

  return hosted({
    ...preparation,

    /** Puts the files of a release where the application finds them, with a journal from which `restoreFiles` undoes it. */
    placeFiles: place,

    /** Puts back what `placeFiles` replaced. Nothing placed is success. */
    async restoreFiles(input: StepOf): Promise<void> {
      const restore = () =>
        turn('restoreFiles', input, async step => {
          await placement.restore(placementOf(step.brought()))
          await volumes.flush(step.appId)
        })
      await retriedRestore(db, input, restore)
    },

    /** Removes what only an undo needs, once the release serves. */
    async settleFiles(input: StepOf): Promise<void> {
      await lateTurn('settleFiles', input, step => placement.settle(placementOf(step.brought())))
    },

    /** Removes what a release that never served left at its host. */
    async discardRelease(input: StepOf): Promise<void> {
      await beginLate('discardRelease', input)
      // An abandoned attempt would keep writing into what is removed.
      await attempts(input, cancellationSignal(), () =>
        lateTurn('discardRelease', input, async step => {
          await engine.remove(buildContainerName(step.spent()))
          if (!step.gone) await placement.discard(placementOf(step.brought()))
        }),
      )
    },

    /** Starts the container of a release; when its program answers within `soonMs`, there is no gate to pass. */
    async startRelease(input: StepOf): Promise<StartedContainer> {
      const step = await begin('startRelease', input)
      const release = step.brought()
      await recordDeployment(db, release, { state: 'restarting' })
      const started = await run('startRelease', { operationId: step.operationId, release }, null)
      const target = targetOf(release, started)
      if (!target) return started
      const container = appContainerName(release)
      const gate = { container, target, timeoutSeconds: soonMs / 1000, probeMs: soonMs / 2 }
      if (await passGate(engine, { ...gate, signal: cancellationSignal() })) return started
      // Otherwise another container may have its port by now.
      const now = await engine.inspect(container)
      const isSame = now?.running && now.hostPort === target.port && (await host.boot.settle()) === started.bootId
      return isSame ? { ...started, answered: true } : started
    },

    /** Null when the program answers or stays alive; else why it did not pass, with its last lines in the log. */
    async passHealthGate(input: StepOf, started: Pick<StartedContainer, 'bootId'>): Promise<Unhealthy | null> {
      const release = (await begin('passHealthGate', input)).brought()
      const container = appContainerName(release)
      // A machine or engine that was restarted has ended the container, and may have given its port to another application.
      const bootId = await host.boot.settle()
      if (started.bootId !== bootId) return takenDown
      const target = targetOf(release, (await engine.inspect(container)) ?? {})
      const gate = { container, target, timeoutSeconds: host.healthGateSeconds, signal: cancellationSignal() }
      const unhealthy = await passGate(engine, gate)
      if (unhealthy && (await host.boot.settle()) !== bootId) return takenDown
      if (unhealthy && release.deploymentId) {
        const output = (await engine.logs(container, lastLogBytes).catch(() => null)) ?? ''
        const text = `${unhealthy.reason}\n${output}`
        await deployments
          .appendLog(db, release.deploymentId, text)
          .catch(ignoreError('a missing line of the log fails no deployment'))
      }
      return unhealthy
    },

    /**
     * Starts the container of the serving release. One that the engine has lost is created again; running already is
     * success, unless `mustStand` requires that it does not run.
     */
    async startApp(input: StepOf, { mustStand }: { mustStand: boolean }): Promise<StartedContainer> {
      const step = await begin('startApp', input)
      const release = step.serving()
      const state = await engine.inspect(appContainerName(release))
      if (mustStand && state?.running && firstAttempt())
        throw refusal('CONTAINER_ALREADY_STARTED', 'The application is already running.')
      return run('startApp', { operationId: step.operationId, release }, commandImageSeconds)
    },

    /** Stops the container and returns how it ended. `mustRun` requires that it runs. */
    async stopApp(input: StepOf, { mustRun }: { mustRun: boolean }): Promise<ContainerExit> {
      const { name, state } = await lateTurn('stopApp', input, async step => {
        const name = appContainerName(step.spent())
        const state = await engine.inspect(name)
        if (state?.running) await engine.stop(name, stopGraceSeconds)
        return { name, state }
      })
      if (mustRun && !state?.running && firstAttempt())
        throw refusal('CONTAINER_ALREADY_STOPPED', 'The application is already stopped.')
      return exitOf(await engine.inspect(name))
    },

    /** Removes the container of one release. */
    async removeContainer(input: StepOf): Promise<void> {
      await lateTurn('removeContainer', input, step => engine.remove(appContainerName(step.spent())))
    },

    /** Removes every container of the application, whatever its release or role. */
    async removeContainers(input: StepOf): Promise<void> {
      await turn('removeContainers', input, async ({ appId }) => {
        const containers: ListedContainer[] = await engine.list({ [labels.app]: appId })
        await Promise.all(containers.map(container => engine.remove(container.name)))
      })
    },

    /** Removes the application's volume with everything in it, and its owner's network and share of the host when nothing else uses them. */
    async removeFiles(input: StepOf): Promise<void> {
      const { appId, ownerId, kind, gone, running } = await beginAfter('removeFiles', input)
      if (!gone && !(running && kind === 'create'))
        throw refusal('ACTION_FAILED', `The application ${appId} is not deleted yet.`)
      await volumes.remove(appId)
      const others = await engine.list({ [labels.host]: host.traits.id, [labels.owner]: ownerId })
      if (others.length === 0) await removeTenant(engine, ownerId, host.traits.id)
    },
  })
}

/** Where the container of a release answers; null for a program without a port. */
function targetOf(release: Release, { hostPort, hostAddress }: Partial<Published>) {
  return hostPort ? { address: hostAddress ?? release.hostAddress, port: hostPort } : null
}

type Published = Pick<StartedContainer, 'hostPort' | 'hostAddress'>

/** How long a start waits for the first answer before it leaves the program to its gate, which has slots of its own; one probe takes half of it at most. */
const soonMs = 500

/** False when an earlier attempt may have had its effect before its answer was lost. */
const firstAttempt = (): boolean => activityInfo().attempt === 1

/** Output of a failed program that is stored with the deployment. */
const lastLogBytes = 16 * KiB
