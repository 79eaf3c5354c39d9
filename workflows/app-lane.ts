import {
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { LaneOperation } from '../activities/release.ts'
import { attributes } from './attributes.ts'
import { create } from './create.ts'
import { deploy } from './deploy.ts'
import { failureOf } from './failures.ts'
import { type Host, hostOf, type LaneInput, records } from './lane-steps.ts'
import { remove, restart, start, stop } from './power.ts'
import { oneAtATime } from './turns.ts'

export type { LaneInput } from './lane-steps.ts'

/** Something was queued for this application, or somebody asked to cancel. */
export const wake = defineSignal('wake')

/** A deploy under way: it is built beside other operations, and can be ended. */
interface Deploying {
  scope: CancellationScope
  ended: Promise<void>
}

/**
 * Runs the operations of one application, oldest first. They never overlap, but for a deploy, which fetches and builds beside the
 * others. The lane ends after some idleness; what is queued later starts it again.
 */
export async function appLane(lane: LaneInput): Promise<void> {
  let wakeUps = 0
  let deploying: Deploying | null = null
  let creating: CancellationScope | null = null
  const exclusive = oneAtATime()

  /** Asked at every wake-up and when something begins, for the wish to end it may have come before. */
  async function endIfAsked(): Promise<void> {
    if (!(creating || deploying) || !(await records.shallEnd(lane.appId))) return
    creating?.cancel()
    deploying?.scope.cancel()
  }

  setHandler(wake, () => {
    wakeUps++
    return endIfAsked()
  })

  for (;;) {
    const seen = wakeUps
    // Claimed only when its turn has come: until then its caller can still be told that it will never run.
    if (await exclusive(runNext)) {
      if (workflowInfo().continueAsNewSuggested && !deploying) await continueAsNew<typeof appLane>(lane)
      continue
    }
    await condition(() => wakeUps > seen, lane.idleSeconds * 1000)
    if (wakeUps === seen && !deploying) return
  }

  /** False when nothing waits. A deploy is only begun: it comes back for its turn when it is built. */
  async function runNext(): Promise<boolean> {
    const operation: LaneOperation | null = await records.claimNext(lane.appId, { deploying: deploying !== null })
    if (!operation) return false
    const { kind } = operation
    const scope = new CancellationScope()
    const host = hostOf(lane, operation)
    if (kind === 'deploy') {
      const ended = run(operation, scope, () => deploy(operation, host, exclusive)).finally(() => {
        deploying = null
        wakeUps++
      })
      deploying = { scope, ended }
      void endIfAsked()
      return true
    }
    if (kind === 'create') {
      creating = scope
      void endIfAsked()
    }
    if (kind === 'delete') await endDeploy(deploying)
    await run(operation, scope, () => stories[kind](operation, host))
    creating = null
    return true
  }
}

/** A deletion waits for no build: what is under way is cancelled, and its end awaited. */
async function endDeploy(deploying: Deploying | null): Promise<void> {
  deploying?.scope.cancel()
  await deploying?.ended
}

type Story = (operation: LaneOperation, host: Host) => Promise<void>

const stories: Record<Exclude<LaneOperation['kind'], 'deploy'>, Story> = {
  create,
  start,
  stop,
  restart,
  delete: remove,
}

/** Tells operators what goes on, and records a failure that the story itself did not. */
async function run(
  { id, kind, release }: LaneOperation,
  scope: CancellationScope,
  story: () => Promise<void>,
): Promise<void> {
  const { hostId, deploymentId } = release
  upsertSearchAttributes(attributes({ hostId, operationKind: kind, deploymentId }))
  setCurrentDetails(`${kind} of application ${release.appId} on host ${hostId}, operation ${id}`)
  await scope
    .run(story)
    .catch(error => CancellationScope.nonCancellable(() => records.finish(id, { state: 'error', ...failureOf(error) })))
  setCurrentDetails(`last was ${kind}, operation ${id}`)
}
