import { activityInfo, cancellationSignal } from '@temporalio/activity'
import * as deployments from '../db/deploys/deployments.ts'
import { allEnded } from '../lib/async/all-ended.ts'
import { ignoreError } from '../lib/async/ignore-error.ts'
import { KiB } from '../lib/bytes.ts'
import { type ListedContainer, labels } from './containers/port.ts'
import { appContainerName, buildContainerName, stopGraceSeconds } from './containers/spec.ts'
import { removeTenant } from './containers/tenant.ts'
import { hosted, refusal } from './failures.ts'
import type { AppHostOptions } from './hosts/app-host-options.ts'
import { releaseAttempts } from './releases/attempts.ts'
import { recordDeployment } from './releases/deployment-state.ts'
import { withinDisk } from './releases/disk.ts'
import { exitOf, passGate, takenDown, type Unhealthy } from './releases/health-gate.ts'
import { releasePlacement } from './releases/placement-request.ts'
import { releasePreparation } from './releases/preparation.ts'
import type { Release, StartedContainer, StepOf, StoppedContainer } from './releases/release.ts'
import { type ReadyStart, releaseStarts } from './releases/starting.ts'
import { guardedSteps, type Step } from './steps/guarded-steps.ts'
import { retriedRestore } from './steps/restored-files.ts'

export type { Unhealthy } from './releases/health-gate.ts'
export type AppHostActivities = ReturnType<typeof appHostActivities>

/** The steps of a container host for one application. Every effect is named by ids, so each step may be repeated. */
export function appHostActivities(host: AppHostOptions) {
  const { db, engine, volumes, placement } = host
  const { assertCurrent, begin, beginAfter, beginLate, turn, turnAfter, lateTurn } = guardedSteps(host)
  const { ready, readyForCommand, createAhead, start, startAgain } = releaseStarts(host, { turn, assertCurrent })
  const { placementOf } = releasePlacement(host)
  const attempts = releaseAttempts()
  const preparation = releasePreparation(host, { begin, attempts, place, create, startBrought })

  async function place(input: StepOf): Promise<void> {
    const { release, files } = await turn('placeFiles', input, async step => {
      const release = step.brought()
      const files = await withinDisk(() => placement.place(placementOf(release)), null)
      await volumes.flush(release.appId)
      return { release, files }
    })
    await recordDeployment(db, release, { state: 'commit', files })
  }

  async function removeAll(appId: string): Promise<void> {
    const containers: ListedContainer[] = await engine.list({ [labels.app]: appId })
    await allEnded(containers.map(container => engine.remove(container.name)))
  }

  const readyForDeploy = (step: Step, signal: AbortSignal, disk: { hasDisk?: true } = {}) =>
    ready({ operationId: step.operationId, release: step.brought(), seconds: null, signal, ...disk })

  async function create(step: Step, signal: AbortSignal): Promise<ReadyStart> {
    return createAhead(step, await readyForDeploy(step, signal, { hasDisk: true }))
  }

  /** Starts the container of a release that is placed; when its program answers within `soonMs`, there is no gate to pass. */
  async function startBrought(step: Step, signal: AbortSignal, coming?: ReadyStart): Promise<StartedContainer> {
    const release = step.brought()
    const startReady = async () => start('startRelease', coming ?? (await readyForDeploy(step, signal)))
    const [started] = await allEnded([startReady(), recordDeployment(db, release, { state: 'restarting' })])
    const target = targetOf(release, started)
    if (!target) return started
    const container = appContainerName(release)
    const gate = { container, target, timeoutSeconds: soonMs / 1000, probeMs: soonMs / 2, signal }
    if (await passGate(engine, gate)) return started
    // Otherwise another container may have its port by now.
    const now = await engine.inspect(container)
    const isSame = now?.running && now.hostPort === target.port && (await host.boot.settle()) === started.bootId
    return isSame ? { ...started, answered: true } : started
  }

  return hosted({
    ...preparation,

    /** Puts the files of a release where the application finds them, with a journal from which `restoreFiles` undoes it. */
    async placeFiles(input: StepOf): Promise<void> {
      const { kind, ownerId } = await begin('placeFiles', input)
      if (kind === 'create') return place(input)
      await placement.inSlot(ownerId, cancellationSignal(), () => place(input))
    },

    /** Puts back what `placeFiles` replaced. Nothing placed is success. */
    async restoreFiles(input: StepOf): Promise<void> {
      const restore = async () => {
        const { ownerId } = await begin('restoreFiles', input)
        await placement.inSlot(ownerId, cancellationSignal(), () =>
          turn('restoreFiles', input, async step => {
            await placement.restore(placementOf(step.brought()))
            await volumes.flush(step.appId)
          }),
        )
      }
      await retriedRestore(db, input, restore)
    },

    /** Removes what only an undo needs, once the release serves. */
    async settleFiles(input: StepOf): Promise<void> {
      const { ownerId } = await beginLate('settleFiles', input)
      await placement.inSlot(ownerId, cancellationSignal(), () =>
        lateTurn('settleFiles', input, step => placement.settle(placementOf(step.brought()))),
      )
    },

    /** Removes what a release that never served left at its host. */
    async discardRelease(input: StepOf): Promise<void> {
      const { ownerId } = await beginLate('discardRelease', input)
      // An abandoned attempt would keep writing into what is removed.
      await attempts(input, cancellationSignal(), async signal => {
        await lateTurn('discardRelease', input, step => engine.remove(buildContainerName(step.spent())))
        await placement.inSlot(ownerId, signal, () =>
          lateTurn('discardRelease', input, async step => {
            if (!step.isDeleted) await placement.discard(placementOf(step.brought()))
          }),
        )
      })
    },

    /** Starts the container of a release that its preparation has not started, or that was removed since. */
    async startRelease(input: StepOf): Promise<StartedContainer> {
      return startBrought(await begin('startRelease', input), cancellationSignal())
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
      return start('startApp', await readyForCommand(step, release))
    },

    /**
     * Stops the container and returns how it ended. `mustRun` requires that it runs. With `thenStart` it is started again: when that
     * fails or takes too long, the failure or the timeout says how it ended.
     */
    async stopApp(input: StepOf, { mustRun, thenStart }: StopTerms): Promise<StoppedContainer> {
      if (thenStart) return startAgain(input)
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
      await turn('removeContainers', input, ({ appId }) => removeAll(appId))
    },

    /**
     * Removes the application's volume with everything in it and whatever uses it, and its owner's network and share of the host when
     * nothing else uses them.
     */
    async removeFiles(input: StepOf): Promise<void> {
      await beginAfter('removeFiles', input)
      // An attempt at its preparation that was given up would start a program on what is removed.
      const { ownerId } = await attempts(input, cancellationSignal(), () =>
        turnAfter('removeFiles', input, async step => {
          const { appId, kind, isDeleted, running } = step
          if (!isDeleted && !(running && kind === 'create'))
            throw refusal('ACTION_FAILED', `The application ${appId} is not deleted yet.`)
          await removeAll(appId)
          await volumes.remove(appId)
          return step
        }),
      )
      const others = await engine.list({ [labels.host]: host.traits.id, [labels.owner]: ownerId })
      if (others.length === 0) await removeTenant(engine, ownerId, host.traits.id)
    },
  })
}

interface StopTerms {
  mustRun: boolean
  thenStart?: true
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
