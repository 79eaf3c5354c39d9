/** Interval of each loop, in seconds; most of them are also notified of changes. */
export const roundSeconds = {
  /** Lost wake-ups are repeated. */
  relay: 1,
  /** Changed applications of a host are compared with their desired state. */
  hostWatch: 5,
  /** Routes of changed applications are compared with what runs. */
  routes: 10,
  /** The platform's own host names, and the operator's certificates for them. */
  platformNames: 60,
  /** Every custom name and certificate of a proxy is compared, changed or not. */
  domains: 10,
  /** Host watch and route keeper compare everything, changed or not. */
  everything: 60,
  firewall: 10,
  /** Whether disks of applications and databases are mounted and writable. */
  disks: 30,
  /** What a host promises of its disk. */
  diskPromise: 60,
  /** Images of databases that a host could not get are tried again. */
  databaseImages: 600,
  /** Whether a host still has the images that it prepared for applications, and which are used now. */
  warmImages: 600,
  /** Which images a host has under the names of databases' images: operators may have replaced one. */
  databaseImageIds: 15,
  /** Leases of live streams are renewed. */
  liveStreams: 20,
  /** Whether Temporal refuses this process's credentials. */
  refusals: 30,
  /** Install results that no one uses are removed. */
  installResults: 300,
  /** What a host's cache of packages holds and has done. */
  packageCache: 60,
  mail: 10,
  /** Plans that end. */
  planEnds: 15,
  /** Expired rows are deleted. */
  sweep: 60,
  /** Analytics learn whose applications are. */
  analyticsAccounts: 60,
  /** Schedules of the upkeep of blob storage. */
  schedules: 60,
} as const

/**
 * Purges after changes of files: seconds until a round does one whose process has not, until it does it again, because the process may have
 * been suspended before its change; and for how many applications a round does it.
 */
export const owedPurges = { afterSeconds: 15, againSeconds: 600, atOnce: 100 } as const

/** After this many consecutive failures something that all targets need must be down: the rest wait for the next round. */
export const failuresInARow = 3

/** Interval of the automatic snapshots of an application, or database, in seconds (contract 6.24). */
export const automaticSnapshotSeconds = 86_400

/** How long changes of applications are listed, in minutes; a reader that comes later compares everything. */
export const changesRetainedMinutes = 10

/**
 * How many applications of each host a round checks for an automatic snapshot that is due, and after how many seconds it checks one
 * again whose account has no paid plan, unless the plan changes before.
 */
export const snapshotLooks = { atOnce: 100, withoutPlanSeconds: 21_600 }

/**
 * Automatic snapshots (contract 6.24, 12.20): days for which those of databases go on after the end of a plan, the longest delay after one
 * that failed, days without a good one after which the owner is warned, and minutes for which one that is being made delays that.
 */
export const automaticSnapshotRules = {
  daysAfterPlan: 30,
  maxRetrySeconds: 21_600,
  warnDays: 3,
  tryMinutes: 60,
} as const
