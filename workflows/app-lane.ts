import {
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  patched,
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

/** Something was queued for this application, or a cancellation was requested. */
const wake = defineSignal('wake')

/** An operation that runs alongside the others, and can be cancelled. */
interface ConcurrentOperation {
  kind: OperationKind
  scope: CancellationScope
  ended: Promise<void>
}

/**
 * Runs the operations of one application, oldest first. They never overlap, except that deploys and restores fetch and build
 * alongside the others, and snapshots copy alongside them. The lane ends after being idle for a while; later operations start it again.
 */
export async function appLane(lane: LaneInput): Promise<void> {
  let wakeUps = 0
  const concurrent = new Map<string, ConcurrentOperation>()
  const cancellable = new Map<string, CancellationScope>()
  const exclusive = oneAtATime()
  /** Serializes copying and replacing the application's files; commands continue meanwhile. */
  const files = oneAtATime()
  const change: Exclusive = work => files(() => exclusive(work))

  /** Called at every wake-up. */
  async function cancelRequested(): Promise<void> {
    if (cancellable.size === 0) return
    for (const id of await records.toEnd(lane.appId)) cancellable.get(id)?.cancel()
  }

  /** The request to cancel an operation may have come before its claim, or after what the claim has found. */
  function cancelIfRequested({ found }: LaneOperation, scope: CancellationScope, wakeUpsBefore: number): void {
    if (found?.cancelled) scope.cancel()
    else if (!found || wakeUps > wakeUpsBefore) void cancelRequested()
  }

  setHandler(wake, () => {
    wakeUps++
    return cancelRequested()
  })

  for (;;) {
    const seen = wakeUps
    // Claimed only when it can run: until then its caller can still get the answer that it will never run.
    const operation = await exclusive(runNext)
    if (operation && workflowInfo().continueAsNewSuggested && concurrent.size === 0)
      await continueAsNew<typeof appLane>(lane)
    // The next step of a concurrent operation is sent once this task of the lane ends, and another claim would delay it. What comes
    // later wakes the lane.
    const isAlone = operation && concurrent.has(operation.id) && operation.found?.othersWait === false
    if (operation && !isAlone) continue
    await condition(() => wakeUps > seen, lane.idleSeconds * 1000)
    if (wakeUps === seen && concurrent.size === 0) return
  }

  /** Null when nothing waits. A concurrent operation is only started here: it waits for exclusive access when it needs it. */
  async function runNext(): Promise<LaneOperation | null> {
    const underWay = [...concurrent.values()].map(({ kind }) => kind)
    const before = wakeUps
    const operation: LaneOperation | null = await records.claimNext(lane.appId, { underWay })
    if (!operation) return null
    const { id, kind } = operation
    const scope = new CancellationScope()
    const host = hostOf(operation)
    if (kind === 'deploy' || kind === 'restore' || kind === 'snapshot') {
      const story = kind === 'snapshot' ? () => snapshot(operation, host, files) : () => deploy(operation, host, change)
      cancellable.set(id, scope)
      const ended = run(operation, scope, story).finally(() => {
        cancellable.delete(id)
        concurrent.delete(id)
        wakeUps++
      })
      concurrent.set(id, { kind, scope, ended })
      cancelIfRequested(operation, scope, before)
      return operation
    }
    if (kind === 'create') {
      cancellable.set(id, scope)
      cancelIfRequested(operation, scope, before)
    }
    if (kind === 'delete') await Promise.all([...concurrent.values()].map(cancelNow))
    await run(operation, scope, () => stories[kind](operation, host))
    cancellable.delete(id)
    return operation
  }
}

/** A deletion waits for no build: what is in progress is cancelled, and its end awaited. */
async function cancelNow({ scope, ended }: ConcurrentOperation): Promise<void> {
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

/** Temporal stores what it can be searched by while it dispatches the next step, so what has not changed is not stored again. */
function showAttributes(values: Parameters<typeof attributes>[0]): void {
  const pairs = attributes(values)
  const { typedSearchAttributes: shown } = workflowInfo()
  const changed = patched('attributes-when-changed')
    ? pairs.filter(({ key, value }) => (shown.get(key) ?? null) !== value)
    : pairs
  if (changed.length > 0) upsertSearchAttributes(changed)
}

/** Shows operators what runs, and records a failure that the story itself did not. */
async function run(
  { id, kind, release }: LaneOperation,
  scope: CancellationScope,
  story: () => Promise<void>,
): Promise<void> {
  const { hostId, deploymentId } = release
  showAttributes({ hostId, operationKind: kind, deploymentId })
  setCurrentDetails(`${kind} of application ${release.appId} on host ${hostId}, operation ${id}`)
  await scope
    .run(story)
    .catch(error => CancellationScope.nonCancellable(() => records.finish(id, { state: 'error', ...failureOf(error) })))
  setCurrentDetails(`last was ${kind}, operation ${id}`)
}
