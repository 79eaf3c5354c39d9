import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  defineSignal,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { Records } from '../activities/records.ts'
import { failureOf } from './failures.ts'
import { type Exclusive, oneAtATime, serialized } from './locks.ts'

/** A cancelled step is awaited: otherwise it could still have its effect after its undo. */
export const cancellationType = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED

/** The activities by which a lane records what it does, in the order of their calls. */
export const recordsOf = <Activities extends object>() =>
  serialized(
    proxyLocalActivities<Activities>({
      cancellationType,
      startToCloseTimeout: '10s',
      retry: { initialInterval: '200ms', maximumInterval: '5s' },
    }),
  )

/** Something was queued for the subject of the lane, or a cancellation was requested. */
const wake = defineSignal('wake')

/** An operation that a lane has claimed. */
interface ClaimedOperation {
  id: string
  kind: string
  /** What the claim has seen besides; missing where it does not look. */
  found?: { cancelled: boolean; othersWait: boolean }
}

/** An operation that runs alongside the others, and can be cancelled. */
export interface ConcurrentOperation<Kind> {
  kind: Kind
  scope: CancellationScope
  ended: Promise<void>
}

/** What a lane does for its kind of subject. */
export interface LaneRules<Operation extends ClaimedOperation> {
  /** How long an idle lane stays, in seconds. */
  idleSeconds: number
  /** Claims the oldest operation that can run while operations of these kinds do; null when none waits. */
  claim(underWay: Operation['kind'][]): Promise<Operation | null>
  /** Ids of operations whose cancellation was requested. */
  toCancel(): Promise<string[]>
  /** The work of an operation. One that runs alongside the others requests exclusive access by itself when it needs it. */
  work(operation: Operation, exclusive: Exclusive): { story: () => Promise<void>; alongside: boolean }
  /** Ends what an operation that runs alone does not wait for; null when nothing is in its way. */
  makeWay(
    kind: Operation['kind'],
    concurrent: readonly ConcurrentOperation<Operation['kind']>[],
  ): Promise<unknown> | null
  /** Shows operators what runs; returns its subject and host in words. */
  show(operation: Operation): string
  /** Records a failure that the story itself did not. */
  finish: Records['finish']
  /** Continues as a new run with an empty history. */
  startAnew(): Promise<never>
}

/**
 * Runs the operations of one subject, oldest first. They never overlap, except that some run alongside the others. The lane ends after being
 * idle for a while; later operations start it again.
 */
export async function runLane<Operation extends ClaimedOperation>(lane: LaneRules<Operation>): Promise<void> {
  let wakeUps = 0
  const concurrent = new Map<string, ConcurrentOperation<Operation['kind']>>()
  const cancellable = new Map<string, CancellationScope>()
  const exclusive = oneAtATime()

  /** Called at every wake-up. */
  async function cancelRequested(): Promise<void> {
    if (cancellable.size === 0) return
    for (const id of await lane.toCancel()) cancellable.get(id)?.cancel()
  }

  /** The request to cancel an operation may have come before its claim, or after what the claim has found. */
  function cancelIfRequested({ found }: Operation, scope: CancellationScope, wakeUpsBefore: number): void {
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
    if (operation && workflowInfo().continueAsNewSuggested && concurrent.size === 0) await lane.startAnew()
    // The next step of a concurrent operation is sent once this task of the lane ends, and another claim would delay it. What comes
    // later wakes the lane.
    const isAlone = operation && concurrent.has(operation.id) && operation.found?.othersWait === false
    if (operation && !isAlone) continue
    await condition(() => wakeUps > seen, lane.idleSeconds * 1000)
    if (wakeUps === seen && concurrent.size === 0) return
  }

  /** Null when nothing waits. A concurrent operation is only started here. */
  async function runNext(): Promise<Operation | null> {
    const underWay = [...concurrent.values()].map(({ kind }) => kind)
    const before = wakeUps
    const operation = await lane.claim(underWay)
    if (!operation) return null
    const { id, kind } = operation
    const scope = new CancellationScope()
    const { story, alongside } = lane.work(operation, exclusive)
    if (alongside) {
      cancellable.set(id, scope)
      const ended = run(lane, operation, scope, story).finally(() => {
        cancellable.delete(id)
        concurrent.delete(id)
        wakeUps++
      })
      concurrent.set(id, { kind, scope, ended })
      cancelIfRequested(operation, scope, before)
      return operation
    }
    // Only what leaves nothing behind can be given up: other operations end within seconds.
    if (kind === 'create') {
      cancellable.set(id, scope)
      cancelIfRequested(operation, scope, before)
    }
    const way = lane.makeWay(kind, [...concurrent.values()])
    // Only then, as another turn of the event loop could reorder what earlier histories have recorded.
    if (way) await way
    await run(lane, operation, scope, story)
    cancellable.delete(id)
    return operation
  }
}

async function run<Operation extends ClaimedOperation>(
  lane: LaneRules<Operation>,
  operation: Operation,
  scope: CancellationScope,
  story: () => Promise<void>,
): Promise<void> {
  const { id, kind } = operation
  setCurrentDetails(`${kind} of ${lane.show(operation)}, operation ${id}`)
  await scope
    .run(story)
    .catch(error => CancellationScope.nonCancellable(() => lane.finish(id, { state: 'error', ...failureOf(error) })))
  setCurrentDetails(`last was ${kind}, operation ${id}`)
}
