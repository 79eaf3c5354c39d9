import type { WorkerOptions } from '@temporalio/worker'
import type { Logger } from 'pino'
import type { AppHostActivities } from '../../activities/app-host.ts'
import type { AppSnapshotActivities } from '../../activities/app-snapshots.ts'
import type { DatabaseHostActivities } from '../../activities/database-host.ts'
import type { DatabaseSnapshotActivities } from '../../activities/database-snapshots.ts'
import type { BuildImages } from '../../activities/steps/build-images.ts'
import { inSlots } from '../../activities/steps/host-slots.ts'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import type { Config } from '../../policy/config.ts'
import {
  buildSlotLimits,
  commandSlots,
  gateSlots,
  releaseSlots,
  snapshotsAtOnce,
  tasksAtOnce,
} from '../../policy/hosts/host-slots.ts'
import { queuesOfHost } from '../../workflows/ids.ts'
import { type RunningWorker, startWorker } from '../temporal/temporal-worker.ts'

export interface HostQueuesOptions {
  config: Config
  log: Logger
  hostId: string
  activities: AppHostActivities
  /** Omitted: steps get their images in their slots. */
  images?: BuildImages
  snapshots: AppSnapshotActivities
  databases: DatabaseHostActivities
  databaseSnapshots: DatabaseSnapshotActivities
}

/**
 * Serves the queues of one host. Commands have a queue without long activities, and each account has its share of every queue: long
 * activities of one account delay neither the commands nor the deploys of another.
 */
export async function serveHostQueues(options: HostQueuesOptions): Promise<RunningWorker> {
  const { config, log, hostId, databaseSnapshots } = options
  const { discardRestore, discardDrill } = databaseSnapshots
  const activities = { ...options.activities, ...options.databases, discardRestore, discardDrill }
  const snapshots = { ...options.snapshots, ...databaseSnapshots }
  const { queuePrefix, host } = config
  const long = longSlots()
  const commands = new FairSlots(commandSlots)
  const builds = new FairSlots(buildSlotLimits(host.buildSlots))
  const queues = queuesOfHost(queuePrefix, hostId)
  type Serving = Pick<WorkerOptions, 'activities' | 'maxConcurrentActivityTaskExecutions'>
  const served: Record<keyof typeof queues, Serving> = {
    commands: {
      activities: inSlots(activities, () => commands),
      maxConcurrentActivityTaskExecutions: tasksAtOnce,
    },
    // Lanes started by an older version send their commands here too; these need no slot.
    deploys: {
      activities: inSlots(activities, name => long[name] ?? null),
      maxConcurrentActivityTaskExecutions: tasksAtOnce,
    },
    builds: {
      activities: inSlots(options.activities, () => builds, options.images),
      maxConcurrentActivityTaskExecutions: tasksAtOnce,
    },
    snapshots: { activities: snapshots, maxConcurrentActivityTaskExecutions: snapshotsAtOnce },
    // All wait in one line (activities/snapshots/slot-line.ts): one that cannot have a slot now holds up no other account.
    snapshotPlaces: { activities: snapshots, maxConcurrentActivityTaskExecutions: tasksAtOnce },
  }
  const names = Object.keys(queues) as (keyof typeof queues)[]
  const workers = await Promise.all(
    names.map(name => startWorker(config, log, { taskQueue: queues[name], ...served[name] })),
  )
  return {
    ended: Promise.race(workers.map(worker => worker.ended)),
    async stop() {
      await Promise.all(workers.map(worker => worker.stop()))
    },
  }
}

function longSlots(): Record<string, FairSlots> {
  const releases = new FairSlots(releaseSlots)
  const gates = new FairSlots(gateSlots)
  const steps = { prepareRelease: releases, placeFiles: releases, startRelease: releases, passHealthGate: gates }
  const ofDatabases = { prepareDatabase: releases, startDatabase: releases, setDatabasePassword: releases }
  return {
    ...(steps satisfies Partial<Record<keyof AppHostActivities, FairSlots>>),
    ...(ofDatabases satisfies Partial<Record<keyof DatabaseHostActivities, FairSlots>>),
  }
}
