import { ApplicationFailure, proxyActivities, workflowInfo } from '@temporalio/workflow'
import type { DatabaseHostActivities } from '../../activities/database-host.ts'
import type { DatabaseRecords } from '../../activities/database-records.ts'
import type { DatabaseSnapshotActivities } from '../../activities/database-snapshots.ts'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import type { DatabaseStepInput } from '../../activities/databases/steps.ts'
import type { Records } from '../../activities/records.ts'
import { commandSeconds } from '../../policy/apps/command-times.ts'
import { heartbeatMs as heartbeatTimeout } from '../../policy/timeouts.ts'
import { prefixOf, queuesOfHost } from '../ids.ts'
import { cancellationType, recordsOf } from '../lane.ts'

export const records = recordsOf<DatabaseRecords & Pick<Records, 'recordStep' | 'secondsLeft' | 'finish'>>()

/** The input of every step at the host. */
export const stepOf = ({ databaseId, id: operationId, ownerId }: DatabaseOperation): DatabaseStepInput => ({
  databaseId,
  operationId,
  ownerId,
})

export type DatabaseHost = ReturnType<typeof databaseHostOf>

/** The activities of the operation's host, with deadlines for each kind of caller. */
export function databaseHostOf({ hostId, ownerId }: DatabaseOperation) {
  // From the queue of this lane's worker, and not from its input: everyone who reaches Temporal can start a lane.
  const queues = queuesOfHost(prefixOf(workflowInfo().taskQueue), hostId)
  const shared = { cancellationType, heartbeatTimeout, priority: { fairnessKey: ownerId } } as const
  const soon = {
    ...shared,
    scheduleToStartTimeout: '30s',
    startToCloseTimeout: '90s',
    scheduleToCloseTimeout: '3m',
  } as const
  const long = {
    ...shared,
    scheduleToStartTimeout: '6h',
    startToCloseTimeout: '4h',
    scheduleToCloseTimeout: '12h',
  } as const
  // Heartbeats end what is dead. The host itself gives up an engine that makes no progress, and one that is repaired may load twice.
  const loading = { startToCloseTimeout: '7h', scheduleToCloseTimeout: '8h' } as const
  const patiently = { initialInterval: '2s', backoffCoefficient: 2, maximumInterval: '60s' } as const
  // All attempts together: meanwhile no other account has this slot of the host.
  const inSlot = { ...long, taskQueue: queues.snapshots, scheduleToCloseTimeout: long.startToCloseTimeout } as const
  const copying = { ...inSlot, retry: { ...patiently, maximumAttempts: 5 } } as const
  const patient = {
    ...shared,
    taskQueue: queues.commands,
    startToCloseTimeout: loading.startToCloseTimeout,
    retry: { initialInterval: '500ms', maximumInterval: '15s', maximumAttempts: 240 },
  } as const
  return {
    /** A person waits. */
    commandWithin: (seconds: number) =>
      proxyActivities<DatabaseHostActivities>({
        ...shared,
        taskQueue: queues.commands,
        scheduleToStartTimeout: '8s',
        startToCloseTimeout: '80s',
        scheduleToCloseTimeout: seconds * 1000,
        retry: { initialInterval: '300ms', maximumAttempts: 3 },
      }),
    /** Starts an engine, which may have to load or recover its data: callers wait no longer than for other commands. */
    starting: proxyActivities<Pick<DatabaseHostActivities, 'startDatabase'>>({
      ...shared,
      ...loading,
      taskQueue: queues.commands,
      // Of each attempt, also of one for which a host that is updated has first to end, and then to begin.
      scheduleToStartTimeout: soon.scheduleToStartTimeout,
      retry: { initialInterval: '300ms', maximumAttempts: 3 },
    }),
    /** Makes a data folder while a person waits. */
    making: proxyActivities<DatabaseHostActivities>({
      ...soon,
      taskQueue: queues.deploys,
      // Another port is taken immediately.
      retry: { initialInterval: '500ms', maximumAttempts: 3, nonRetryableErrorTypes: ['CONTAINER_NETWORK_CONFLICT'] },
    }),
    /** One start between two volumes: what fails goes back. */
    switching: proxyActivities<DatabaseHostActivities>({
      ...soon,
      ...loading,
      taskQueue: queues.commands,
      retry: { initialInterval: '500ms', maximumAttempts: 2 },
    }),
    /** A slot of the host for a snapshot: all wait there in one line, where accounts alternate, and one attempt may wait for all of that time. */
    place: proxyActivities<DatabaseSnapshotActivities>({
      ...long,
      startToCloseTimeout: long.scheduleToCloseTimeout,
      taskQueue: queues.snapshotPlaces,
      retry: patiently,
    }),
    /** Dumps, loads and compares: few per host at a time, because it reads and writes everything. */
    copy: proxyActivities<DatabaseSnapshotActivities>(copying),
    /** The same for what takes a slot by itself, if one is free: it does not wait here for those who work in theirs, nor for a host that is away. */
    inFreeSlot: proxyActivities<Pick<DatabaseSnapshotActivities, 'takeDatabaseSnapshot'>>({
      ...copying,
      taskQueue: queues.snapshotPlaces,
      scheduleToStartTimeout: '8s',
    }),
    /** The same for a drill, which is evidence also when it fails. */
    drill: proxyActivities<DatabaseSnapshotActivities>({
      ...inSlot,
      retry: { ...patiently, maximumAttempts: 2 },
    }),
    /**
     * Undoes what was started as soon as the host answers and has what it lacks, for about an hour: nothing may stay half done. A start among these
     * ends when a stop or deletion waits.
     */
    patient: proxyActivities<DatabaseHostActivities & Pick<DatabaseSnapshotActivities, 'discardRestore'>>(patient),
    /** Removes what a drill has left while the lane waits for it. A host that returns later removes it by itself. */
    cleanup: proxyActivities<Pick<DatabaseSnapshotActivities, 'discardDrill'>>({
      ...patient,
      scheduleToCloseTimeout: '1h',
    }),
  }
}

/** Throws ACTION_FAILED when too little time is left for a command: what was answered as a failure must not succeed later. */
export const demandTime = async (operation: DatabaseOperation): Promise<void> => void (await secondsFor(operation))

/** Max seconds of the steps of a command at the host, so that they end while the caller still waits. Throws as `demandTime`. */
export async function secondsFor({ id }: DatabaseOperation): Promise<number> {
  const left = await records.secondsLeft(id)
  if (left === null) return databaseCommandSeconds
  const seconds = Math.floor(left) - commandSeconds.outcome
  if (seconds < commandSeconds.min)
    throw ApplicationFailure.nonRetryable('There was not enough time left to do it.', 'ACTION_FAILED')
  return Math.min(databaseCommandSeconds, seconds)
}

/** Max seconds of the steps of one command: one stop and one start, with a recovery between them. */
const databaseCommandSeconds = 85
