/** How often each loop of ours looks again by itself, in seconds; most of them are also notified of changes. */
export const roundSeconds = {
  /** Lost wake-ups are made good. */
  relay: 1,
  /** What has changed on a host is compared with what is wanted. */
  hostWatch: 5,
  /** Routes of what has changed are compared with what runs. */
  routes: 10,
  /** Host watch and route keeper compare everything, whether it has changed or not. */
  everything: 60,
  firewall: 10,
  /** Whether disks of applications are there and take what is written. */
  disks: 30,
  /** Leases of live streams are renewed. */
  liveStreams: 20,
  /** Whether Temporal refuses what this process brings. */
  refusals: 30,
  mail: 10,
  /** Plans that end. */
  planEnds: 15,
  /** Rows that are over are removed. */
  sweep: 60,
  /** Schedules of the upkeep of blob storage. */
  schedules: 60,
} as const

/** After so many targets in a row that fail it is what all of them need that is away: the others wait for the next round. */
export const failuresInARow = 3

/** An application has a snapshot by itself once in so many seconds (contract 6.24). */
export const automaticSnapshotSeconds = 86_400

/** How long changes of applications are listed, in minutes; a reader that comes later compares everything. */
export const changesKeptMinutes = 10

/**
 * How many applications of each host a round checks for an automatic snapshot that is due, and after how many seconds it checks one
 * again whose account has no paid plan, unless the plan changes before.
 */
export const snapshotLooks = { atOnce: 100, withoutPlanSeconds: 21_600 }
