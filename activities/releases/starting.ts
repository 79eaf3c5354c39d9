import { cancellationSignal } from '@temporalio/activity'
import * as apps from '../../db/apps/apps.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { ownPort } from '../../policy/apps/published-address.ts'
import { commandImageSeconds } from '../../policy/hosts/host-slots.ts'
import type { ContainerSpec, ContainerState } from '../containers/port.ts'
import {
  appContainer,
  appContainerName,
  fingerprinted,
  publishedAt,
  stopGraceSeconds,
  tenantNetwork,
} from '../containers/spec.ts'
import { reportToLane } from '../failures.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { fenced } from '../steps/claims.ts'
import type { guardedSteps, Step } from '../steps/guarded-steps.ts'
import { recordServingAgain } from '../steps/serving.ts'
import { dependenciesOf, releaseFolders } from './files.ts'
import { exitOf } from './health-gate.ts'
import { imageOfStep } from './image-step.ts'
import { releasePlacement } from './placement-request.ts'
import type { Release, StartedContainer, StepOf, StoppedContainer } from './release.ts'
import { createContainer, startPublished } from './start.ts'

/** What a start is for. */
interface StartRequest {
  operationId: string
  release: Release
  /** Its disk was provided a moment ago. */
  hasDisk?: true
  /** Max seconds to wait for its image; null: as long as it takes. */
  seconds: number | null
  signal: AbortSignal
}

/** A start that lacks nothing but its turn. */
export interface ReadyStart {
  release: Release
  spec: ContainerSpec
  bootId: string
  variablesVersion: number
  /** The id of its container, when that was created ahead. */
  created?: string
}

/** Starts of releases at their host, in two parts: the first one may be done while another container still runs, or ends. */
export function releaseStarts(
  host: AppHostOptions,
  { turn, assertCurrent }: Pick<ReturnType<typeof guardedSteps>, 'turn' | 'assertCurrent'>,
) {
  const { db, engine, volumes } = host
  const { ownerUid } = releasePlacement(host)
  const fence = fenced(db)

  async function described({ release, hasDisk }: StartRequest): Promise<Pick<ReadyStart, 'spec' | 'variablesVersion'>> {
    const folder = volumes.path(release.appId)
    const uid = ownerUid(release)
    const { version, values } = await host.variables(release)
    if (!hasDisk) await volumes.ensure(release.appId, release.diskMb, uid, 'before')
    const dependencies = await dependenciesOf(folder, release.number)
    const disk = await host.disk?.(release.appId)
    const places = { files: releaseFolders(folder, release.number).files, dependencies }
    const spec = fingerprinted({ ...appContainer({ ...release, uid }, places, values, host.traits), disk })
    return { spec: publishedAt(spec, ownPort(release)), variablesVersion: version }
  }

  /** Provides everything that the container of a release needs. */
  async function ready(request: StartRequest): Promise<ReadyStart> {
    const { operationId, release, seconds, signal } = request
    const [{ spec, variablesVersion }] = await allEnded([
      described(request),
      engine.ensureNetwork(tenantNetwork(release.ownerId, host.traits.id)),
    ])
    await imageOfStep(host, { operationId, release, image: spec.image, seconds, signal })
    const bootId = await host.boot.settle()
    if (spec.publish) await host.routed?.(signal)
    return { release, spec, bootId, variablesVersion }
  }

  /** Within a turn. `ended` is the state of its container, for a caller that has just stopped it. */
  async function startNow(
    step: Step,
    { release, spec, created, ...facts }: ReadyStart,
    ended?: ContainerState | null,
  ): Promise<StartedContainer> {
    const alone = release.hostname === null
    const terms = { alone, ended, created, assertCurrent: () => assertCurrent(step) }
    const started = await startPublished(engine, spec, terms)
    const { hostPort, hostAddress } = started
    const isChosen = hostPort !== null && hostPort !== spec.publish?.hostPort
    if (isChosen) await apps.clearPortOfOthers(db, release.appId, hostPort, hostAddress)
    return { ...started, ...facts }
  }

  const start = (name: 'startRelease' | 'startApp', coming: ReadyStart): Promise<StartedContainer> =>
    turn(name, coming.release, step => startNow(step, coming))

  const readyForCommand = ({ operationId }: Step, release: Release) =>
    ready({ operationId, release, seconds: commandImageSeconds, signal: cancellationSignal() })

  /**
   * Stops the container of the serving release, and starts it. What the start needs is made ready meanwhile. Where the route has not changed,
   * the caller need not wait for the lane to record the outcome.
   */
  async function startAgain(input: StepOf): Promise<StoppedContainer> {
    const { ended, coming, waits, again } = await turn('stopApp', input, async step => {
      const release = step.serving()
      const coming = readyForCommand(step, release)
      coming.catch(ignoreError('the start reports it; after a failed stop it is of no interest'))
      const waits = diskWaits(input, coming)
      const name = appContainerName(release)
      await engine.stop(name, stopGraceSeconds)
      return { ended: await engine.inspect(name), coming, waits, again: () => readyForCommand(step, release) }
    })
    const exit = exitOf(ended)
    reportToLane(exit)
    const ready = (await waits) ? await again() : await coming
    return turn('startApp', ready.release, async step => {
      const started = await startNow(step, ready, ended)
      // A later attempt, which waits for this turn, must find the operation ended, or that it has to stop and start once more.
      await assertCurrent(step)
      const recorded = await recordServingAgain(fence, step.operationId, ready.release, started).catch(
        ignoreError('the container runs, so its lane records that'),
      )
      return { ...exit, started, ...(recorded && { recorded }) }
    })
  }

  /** Whether the disk is to be repaired, or to grow, once no program uses it. Called while one does; looks when what the next one needs is ready, or failed. */
  async function diskWaits({ appId }: StepOf, coming: Promise<ReadyStart>): Promise<boolean> {
    await Promise.allSettled([coming])
    return volumes.waits(appId).catch(() => false) // a lost disk: what is made ready reports it
  }

  return {
    ready,
    readyForCommand,
    start,
    startAgain,

    /** Creates its container ahead of the start. */
    async createAhead(step: Pick<Step, 'operationId'>, coming: ReadyStart): Promise<ReadyStart> {
      const created = await createContainer(engine, coming.spec, { assertCurrent: () => assertCurrent(step) })
      return { ...coming, created }
    },
  }
}
