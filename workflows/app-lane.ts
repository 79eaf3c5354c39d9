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
import type { LaneOperation } from '../activities/releases/release.ts'
import type { OperationKind } from '../db/operations/operations.ts'
import { attributes } from './attributes.ts'
import { create } from './create.ts'
import { deploy } from './deploy.ts'
import { failureOf } from './failures.ts'
import { type Host, hostOf, type LaneInput, records } from './lane-steps.ts'
import { remove, restart, start, stop } from './power.ts'
import { snapshot } from './snapshot.ts'
import { type Exclusive, oneAtATime } from './turns.ts'

export type { LaneInput } from './lane-steps.ts'

/** Something was queued for this application, or somebody asked to cancel. */
export const wake = defineSignal('wake')

/** An operation that is worked on beside the others, and can be ended. */
interface Beside {
  kind: OperationKind
  scope: CancellationScope
  ended: Promise<void>
}

/**
 * Runs the operations of one application, oldest first. They never overlap, but for deploys and restores, which fetch and build
 * beside the others, and snapshots, which copy beside them. The lane ends after some idleness; what is queued later starts it again.
 */
export async function appLane(lane: LaneInput): Promise<void> {
  let wakeUps = 0
  const beside = new Map<string, Beside>()
  const endable = new Map<string, CancellationScope>()
  const exclusive = oneAtATime()
  /** Who copies the application's files, or replaces them, does it alone; commands go on meanwhile. */
  const files = oneAtATime()
  const change: Exclusive = work => files(() => exclusive(work))

  /** Asked at every wake-up and when something begins, for the wish to end it may have come before. */
  async function endIfAsked(): Promise<void> {
    if (endable.size === 0) return
    for (const id of await records.toEnd(lane.appId)) endable.get(id)?.cancel()
  }

  setHandler(wake, () => {
    wakeUps++
    return endIfAsked()
  })

  for (;;) {
    const seen = wakeUps
    // Claimed only when its turn has come: until then its caller can still be told that it will never run.
    if (await exclusive(runNext)) {
      if (workflowInfo().continueAsNewSuggested && beside.size === 0) await continueAsNew<typeof appLane>(lane)
      continue
    }
    await condition(() => wakeUps > seen, lane.idleSeconds * 1000)
    if (wakeUps === seen && beside.size === 0) return
  }

  /** False when nothing waits. What runs beside is only begun: it comes back for its turn when it needs one. */
  async function runNext(): Promise<boolean> {
    const underWay = [...beside.values()].map(({ kind }) => kind)
    const operation: LaneOperation | null = await records.claimNext(lane.appId, { underWay })
    if (!operation) return false
    const { id, kind } = operation
    const scope = new CancellationScope()
    const host = hostOf(operation)
    if (kind === 'deploy' || kind === 'restore' || kind === 'snapshot') {
      const story = kind === 'snapshot' ? () => snapshot(operation, host, files) : () => deploy(operation, host, change)
      endable.set(id, scope)
      const ended = run(operation, scope, story).finally(() => {
        endable.delete(id)
        beside.delete(id)
        wakeUps++
      })
      beside.set(id, { kind, scope, ended })
      void endIfAsked()
      return true
    }
    if (kind === 'create') {
      endable.set(id, scope)
      void endIfAsked()
    }
    if (kind === 'delete') await Promise.all([...beside.values()].map(endNow))
    await run(operation, scope, () => stories[kind](operation, host))
    endable.delete(id)
    return true
  }
}

/** A deletion waits for no build: what is under way is cancelled, and its end awaited. */
async function endNow({ scope, ended }: Beside): Promise<void> {
  scope.cancel()
  await ended
}

type Story = (operation: LaneOperation, host: Host) => Promise<void>

const stories: Record<Exclude<LaneOperation['kind'], 'deploy' | 'restore' | 'snapshot'>, Story> = {
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
