import { patched, proxyActivities, proxyLocalActivities, workflowInfo } from '@temporalio/workflow'
import type { AppHostActivities } from '../activities/app-host.ts'
import type { AppSnapshotActivities } from '../activities/app-snapshots.ts'
import type { EdgeActivities } from '../activities/edge-routes.ts'
import type { Records } from '../activities/records.ts'
import type { LaneOperation } from '../activities/releases/release.ts'
import { commandSeconds } from '../policy/apps/command-times.ts'
import { heartbeatMs as heartbeatTimeout } from '../policy/timeouts.ts'
import { prefixOf, queuesOfHost } from './ids.ts'
import { cancellationType, recordsOf } from './lane.ts'
import { serialized } from './locks.ts'

export interface LaneInput {
  appId: string
  /** How long an idle lane stays, in seconds. */
  idleSeconds: number
  /** For workers of an older version; current ones derive it from their queue. */
  queuePrefix: string
}

export const records = recordsOf<Records>()

/** Shows that the container of a release is about to start; the outcome of the operation replaces that. */
export function showStarting({ id, release: { appId } }: LaneOperation): Promise<void> {
  return records.recordStatus(appId, 'starting', { operationId: id, words: 'starting the container' })
}

export const { switchRoute, removeRoute } = serialized(
  proxyLocalActivities<EdgeActivities>({
    cancellationType,
    startToCloseTimeout: '5s',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 10 },
  }),
)

/**
 * The same while a caller waits, within `commandSeconds.route` for all attempts: the route keeper continues with what takes longer.
 * Attempts are limited by number, because a local activity that is retried past its `scheduleToCloseTimeout` never ends.
 */
export const quickly = serialized(
  proxyLocalActivities<Pick<EdgeActivities, 'switchRoute' | 'removeRoute'> & Pick<Records, 'appServes'>>({
    cancellationType,
    startToCloseTimeout: '1500ms',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 4 },
  }),
)

/** For callers that retry themselves: other steps can run in between. */
export const { routeStands } = serialized(
  proxyLocalActivities<EdgeActivities>({
    cancellationType,
    startToCloseTimeout: '5s',
    retry: { maximumAttempts: 1 },
  }),
)

export type Host = ReturnType<typeof hostOf>

/** From the queue of this lane's worker, and not from its input: everyone who reaches Temporal can start a lane. */
const queuePrefix = () => prefixOf(workflowInfo().taskQueue)

/** The activities of the operation's host, with deadlines for each kind of caller. */
export function hostOf({ release }: LaneOperation) {
  const queues = queuesOfHost(queuePrefix(), release.hostId)
  const commands = patched('commands-apart') ? queues.commands : queues.deploys
  const commandWithin = (seconds: number, attemptSeconds = 40) =>
    proxyActivities<AppHostActivities>({
      taskQueue: commands,
      cancellationType,
      heartbeatTimeout,
      scheduleToStartTimeout: '8s',
      startToCloseTimeout: attemptSeconds * 1000,
      scheduleToCloseTimeout: seconds * 1000,
      retry: { initialInterval: '300ms', maximumAttempts: 3 },
    })
  return {
    /** A person waits. */
    command: commandWithin(commandSeconds.step),
    /** A person waits, with less time left, for attempts that take at most this long. */
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
    /** Undoes what was started as soon as the host answers, however long that takes: nothing may stay half done. */
    patient: proxyActivities<AppHostActivities>({
      taskQueue: commands,
      cancellationType,
      heartbeatTimeout,
      startToCloseTimeout: '20m',
      retry: { initialInterval: '500ms', maximumInterval: '15s', maximumAttempts: 240 },
    }),
    /** The same without a limit: the host reports it, and gives up when someone requests it. */
    untilDone: proxyActivities<Pick<AppHostActivities, 'restoreFiles'>>({
      taskQueue: commands,
      cancellationType,
      heartbeatTimeout,
      startToCloseTimeout: '20m',
      retry: { initialInterval: '500ms', maximumInterval: '15s' },
    }),
    /** Takes one of the host's build slots. It waits for a slot at the host, whose own limits end what takes too long. */
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
    /** A slot of the host for a snapshot: all wait there in one line, where accounts alternate, and one attempt may wait for all of that time. */
    place: proxyActivities<AppSnapshotActivities>({
      taskQueue: queues.snapshotPlaces,
      cancellationType,
      heartbeatTimeout,
      priority: { fairnessKey: release.ownerId },
      scheduleToStartTimeout: '6h',
      startToCloseTimeout: '12h',
      scheduleToCloseTimeout: '12h',
      retry: { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '60s' },
    }),
    /** Few snapshots per host at a time, of which an account has one: reading everything twice keeps its disk busy. */
    copy: proxyActivities<AppSnapshotActivities>({
      taskQueue: queues.snapshots,
      cancellationType,
      heartbeatTimeout,
      priority: { fairnessKey: release.ownerId },
      scheduleToStartTimeout: '6h',
      startToCloseTimeout: '4h',
      // All attempts together: meanwhile no other account has this slot of the host.
      scheduleToCloseTimeout: '4h',
      retry: { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '60s', maximumAttempts: 5 },
    }),
  }
}
