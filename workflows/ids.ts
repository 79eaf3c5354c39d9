/** Ids of workflows and names of task queues: clients, workers and workflows of all versions must agree on them. */

/** The workflow that runs the operations of an application. */
export const laneId = (appId: string): string => `app/${appId}`

/** The workflow that runs the operations of a database. */
export const databaseLaneId = (databaseId: string): string => `database/${databaseId}`

/** The workflow that takes an account to a lower plan. */
export const downgradeId = (userId: string): string => `downgrade/${userId}`

/** The workflow that proves a host name and keeps its certificate. */
export const domainId = (hostname: string): string => `domain/${hostname}`

/** The queue of workflows, and of the activities that need no container host. */
export const platformQueue = (prefix: string): string => `${prefix}platform`

/** The installation's prefix in the name of its platform queue. */
export const prefixOf = (platform: string): string => platform.replace(/platform$/, '')

/** The task queues of a container host, which its process polls (workers/host/host-queues.ts). */
export function queuesOfHost(prefix: string, hostId: string) {
  const host = `${prefix}host/${hostId}`
  return {
    /** Deploys, and all requests of lanes of an older version. */
    deploys: host,
    /** Commands and undo steps: nothing here takes long. */
    commands: `${host}/commands`,
    /** Fetches and builds wait here for one of the host's slots; accounts alternate. */
    builds: `${host}/builds`,
    /** Snapshots that have a slot of the host. */
    snapshots: `${host}/snapshots`,
    /** Snapshots wait here for a slot of the host; accounts alternate. */
    snapshotPlaces: `${host}/snapshots/places`,
  }
}
