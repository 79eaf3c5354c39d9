import {
  ActivityCancellationType,
  patched,
  proxyActivities,
  proxyLocalActivities,
  workflowInfo,
} from '@temporalio/workflow'
import type { AppHostActivities } from '../activities/app-host.ts'
import type { AppSnapshotActivities } from '../activities/app-snapshots.ts'
import type { EdgeActivities } from '../activities/edge-routes.ts'
import type { Records } from '../activities/records.ts'
import type { LaneOperation } from '../activities/releases/release.ts'
import { commandSeconds } from '../policy/apps/command-times.ts'
import { prefixOf, queuesOfHost } from './ids.ts'
import { oneAtATime } from './turns.ts'

export interface LaneInput {
  appId: string
  /** How long an idle lane stays, in seconds. */
  idleSeconds: number
  /** For workers of an older version; today’s go by the queue that they serve. */
  queuePrefix: string
}

/** What was begun is awaited: a step given up half-way could still have its effect, after its undo. */
const cancellationType = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED

const turn = oneAtATime()

/** Local steps that run side by side may end in another order when their history is replayed, and the lane would be stuck. */
function inTurn<T extends object>(steps: T): T {
  type Step = (...args: unknown[]) => Promise<unknown>
  return new Proxy(steps, {
    get: (target, name) => {
      const step = Reflect.get(target, name) as Step
      return (...args: unknown[]) => turn(() => step(...args))
    },
  })
}

export const records = inTurn(
  proxyLocalActivities<Records>({
    cancellationType,
    startToCloseTimeout: '10s',
    retry: { initialInterval: '200ms', maximumInterval: '5s' },
  }),
)

/** The container of a release is about to start; the end of the operation says what became of it. */
export function showStarting({ id, release: { appId } }: LaneOperation): Promise<void> {
  return records.recordStatus(appId, 'starting', { operationId: id, words: 'starting the container' })
}

export const { switchRoute, removeRoute } = inTurn(
  proxyLocalActivities<EdgeActivities>({
    cancellationType,
    startToCloseTimeout: '5s',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 10 },
  }),
)

/**
 * The same while a caller waits, in `commandSeconds.route` with all attempts: the route keeper goes on with what takes longer. Attempts
 * are counted, because a local activity that is tried again past its `scheduleToCloseTimeout` never ends.
 */
export const quickly = inTurn(
  proxyLocalActivities<Pick<EdgeActivities, 'switchRoute' | 'removeRoute'>>({
    cancellationType,
    startToCloseTimeout: '1500ms',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 4 },
  }),
)

/** For who tries again in a way of its own: other steps get their turn in between. */
export const { routeStands } = inTurn(
  proxyLocalActivities<EdgeActivities>({
    cancellationType,
    startToCloseTimeout: '5s',
    retry: { maximumAttempts: 1 },
  }),
)

export type Host = ReturnType<typeof hostOf>

const heartbeatTimeout = '15s'

/** Told by the queue that this lane is worked on from, and not by its input: whoever reaches Temporal can start a lane. */
const queuePrefix = () => prefixOf(workflowInfo().taskQueue)

/** The activities of the operation's host, with the deadlines of those who wait for them. */
export function hostOf({ release }: LaneOperation) {
  const queues = queuesOfHost(queuePrefix(), release.hostId)
  const commands = patched('commands-apart') ? queues.commands : queues.deploys
  const commandWithin = (seconds: number) =>
    proxyActivities<AppHostActivities>({
      taskQueue: commands,
      cancellationType,
      heartbeatTimeout,
      scheduleToStartTimeout: '8s',
      startToCloseTimeout: '40s',
      scheduleToCloseTimeout: seconds * 1000,
      retry: { initialInterval: '300ms', maximumAttempts: 3 },
    })
  return {
    /** A person waits. */
    command: commandWithin(commandSeconds.step),
    /** A person waits, and is answered soon. */
    commandWithin,
    /** A deployment may wait for its host. */
    build: proxyActivities<AppHostActivities>({
      taskQueue: queues.deploys,
      cancellationType,
      heartbeatTimeout,
      priority: { fairnessKey: release.ownerId },
      scheduleToStartTimeout: '30m',
      startToCloseTimeout: '20m',
      retry: { initialInterval: '500ms', maximumInterval: '15s', maximumAttempts: 20 },
    }),
    /** What was begun is taken back as soon as the host answers, however long that takes: half of it may not stay. */
    patient: proxyActivities<AppHostActivities>({
      taskQueue: commands,
      cancellationType,
      heartbeatTimeout,
      startToCloseTimeout: '20m',
      retry: { initialInterval: '500ms', maximumInterval: '15s', maximumAttempts: 240 },
    }),
    /** The same without an end of its own: the host tells of it, and gives it up when somebody asks. */
    untilDone: proxyActivities<Pick<AppHostActivities, 'restoreFiles'>>({
      taskQueue: commands,
      cancellationType,
      heartbeatTimeout,
      startToCloseTimeout: '20m',
      retry: { initialInterval: '500ms', maximumInterval: '15s' },
    }),
    /** Takes one of the host's build slots. It waits for its turn at the host, whose own limits end what takes too long there. */
    slot: proxyActivities<AppHostActivities>({
      taskQueue: queues.builds,
      cancellationType,
      heartbeatTimeout,
      priority: { fairnessKey: release.ownerId },
      scheduleToStartTimeout: '2h',
      startToCloseTimeout: '140m',
      scheduleToCloseTimeout: '140m',
      retry: { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '60s', maximumAttempts: 12 },
    }),
    /** The host's place for a snapshot, accounts in turn; who is next waits at the host. */
    place: proxyActivities<AppSnapshotActivities>({
      taskQueue: queues.snapshotPlaces,
      cancellationType,
      heartbeatTimeout,
      priority: { fairnessKey: release.ownerId },
      scheduleToStartTimeout: '6h',
      startToCloseTimeout: '4h',
      scheduleToCloseTimeout: '12h',
      retry: { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '60s' },
    }),
    /** One snapshot of a host at a time, accounts in turn: reading everything twice is what its disk is busy with. */
    copy: proxyActivities<AppSnapshotActivities>({
      taskQueue: queues.snapshots,
      cancellationType,
      heartbeatTimeout,
      priority: { fairnessKey: release.ownerId },
      scheduleToStartTimeout: '6h',
      startToCloseTimeout: '4h',
      scheduleToCloseTimeout: '12h',
      retry: { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '60s', maximumAttempts: 5 },
    }),
  }
}
