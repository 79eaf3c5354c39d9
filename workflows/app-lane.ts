import { continueAsNew, patched, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow'
import type { LaneOperation } from '../activities/releases/release.ts'
import { attributes } from './attributes.ts'
import { create } from './create.ts'
import { deploy } from './deploy.ts'
import { type ConcurrentOperation, runLane } from './lane.ts'
import { type Host, hostOf, type LaneInput, records } from './lane-steps.ts'
import { type Exclusive, oneAtATime } from './locks.ts'
import { remove, restart, start, stop } from './power.ts'
import { snapshot } from './snapshot.ts'

export type { LaneInput } from './lane-steps.ts'

/**
 * The operations of one application (`runLane`): deploys and restores fetch and build alongside the others, and snapshots copy alongside
 * them.
 */
export async function appLane(lane: LaneInput): Promise<void> {
  /** Serializes copying and replacing the application's files; commands continue meanwhile. */
  const files = oneAtATime()
  await runLane<LaneOperation>({
    idleSeconds: lane.idleSeconds,
    claim: underWay => records.claimNext(lane.appId, { underWay }),
    toCancel: () => records.toEnd(lane.appId),
    work(operation, exclusive) {
      const host = hostOf(operation)
      const { kind } = operation
      if (kind === 'snapshot') return { story: () => snapshot(operation, host, files), alongside: true }
      if (kind !== 'deploy' && kind !== 'restore')
        return { story: () => stories[kind](operation, host), alongside: false }
      const change: Exclusive = work => files(() => exclusive(work))
      return { story: () => deploy(operation, host, change), alongside: true }
    },
    makeWay: (kind, concurrent) => (kind === 'delete' ? Promise.all(concurrent.map(cancelNow)) : null),
    show({ kind, release: { appId, hostId, deploymentId } }) {
      showAttributes({ hostId, operationKind: kind, deploymentId })
      return `application ${appId} on host ${hostId}`
    },
    finish: records.finish,
    startAnew: () => continueAsNew<typeof appLane>(lane),
  })
}

/** A deletion waits for no build: what is in progress is cancelled, and its end awaited. */
async function cancelNow({ scope, ended }: ConcurrentOperation<LaneOperation['kind']>): Promise<void> {
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
