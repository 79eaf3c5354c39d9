/** Interval of each loop, in seconds; most of them are also notified of changes. */
export const roundSeconds = {
  /** Lost wake-ups are repeated. */
  relay: 1,
  /** Changed applications of a host are compared with their desired state. */
  hostWatch: 5,
  /** Routes of changed applications are compared with what runs. */
  routes: 10,
  /** Host watch and route keeper compare everything, changed or not. */
  everything: 60,
  firewall: 10,
  /** Whether disks of applications and databases are mounted and writable. */
  disks: 30,
  /** Images of databases that a host could not get are tried again. */
  databaseImages: 600,
  /** Leases of live streams are renewed. */
  liveStreams: 20,
  /** Whether Temporal refuses this process's credentials. */
  refusals: 30,
  mail: 10,
  /** Plans that end. */
  planEnds: 15,
  /** Expired rows are deleted. */
  sweep: 60,
  /** Schedules of the upkeep of blob storage. */
  schedules: 60,
} as const

/** After this many consecutive failures something that all targets need must be down: the rest wait for the next round. */
export const failuresInARow = 3

/** Interval of an application's automatic snapshots, in seconds (contract 6.24). */
export const automaticSnapshotSeconds = 86_400

/** How long changes of applications are listed, in minutes; a reader that comes later compares everything. */
export const changesRetainedMinutes = 10

/**
 * How many applications of each host a round checks for an automatic snapshot that is due, and after how many seconds it checks one
 * again whose account has no paid plan, unless the plan changes before.
 */
export const snapshotLooks = { atOnce: 100, withoutPlanSeconds: 21_600 }
