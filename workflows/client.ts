/**
 * How the rest of Berth wakes workflows. A wake-up is durable once it resolves, even without a worker. It may fail or get lost: the row
 * in Postgres decides, and the relay wakes again. The adapter for Temporal is in workers/temporal/.
 */

/** Wakes the lane of an application, which carries out its operations one after the other. */
export interface Lanes {
  wake(appId: string, ownerId: string): Promise<void>
}

/** Wakes the workflow of a host name. */
export interface Domains {
  wake(hostname: string): Promise<void>
}

/** Wakes the step of an account to a lower plan. */
export interface Downgrades {
  wake(userId: string): Promise<void>
}
