import { MiB } from '../../lib/bytes.ts'

/** Kinds after which the engine serves. */
const serving = ['create', 'start', 'resize', 'rotate', 'certify', 'restore', 'undo', 'upgrade'] as const

/** Steps on a database's host, and the kinds of operations that use them. */
export const databaseSteps = {
  prepareDatabase: ['create'],
  startDatabase: serving,
  stopDatabase: ['stop', 'resize', 'restore', 'undo', 'upgrade'],
  setDatabasePassword: ['create', 'rotate', 'restore', 'undo', 'upgrade'],
  fitDatabaseMemory: ['resize'],
  chooseImage: ['upgrade'],
  proveImage: ['upgrade'],
  reissueCertificate: ['certify'],
  removeDatabaseContainers: ['create', 'delete'],
  removeDatabaseVolumes: ['create', 'delete'],
  awaitDatabaseSnapshotPlace: ['snapshot', 'drill', 'restore'],
  takeDatabaseSnapshot: ['snapshot'],
  prepareRestore: ['restore'],
  discardRestore: ['restore'],
  drillSnapshot: ['drill'],
  discardDrill: ['drill'],
} as const satisfies Record<string, readonly string[]>

export type DatabaseStepName = keyof typeof databaseSteps

/** Time of steps at the host in seconds. */
export const databaseSeconds = {
  /** Until an engine that was started serves, without any progress: a recovery reads the log of changes since its last checkpoint. */
  serve: 60,
  /** The same with progress: an engine that loads all of its data, or recovers. */
  load: 3 * 3600,
  /** One job that makes a data folder. */
  initialise: 60,
  /** One login that proves a password. */
  login: 10,
  /** One conversation that reads or writes all that a database has: less than a step on a host may take (4 h). */
  copy: 3 * 3600,
  /** How long a script of the customer may keep a snapshot from beginning: the next account waits for the place. */
  script: 60,
} as const

/** What a container does while its engine makes progress, and not while it waits: percent of a processor, or MB of its disk since the last progress. */
export const engineProgress = { cpuPercent: 10, diskMb: 1 } as const

/** Type of the failure of a start that was given up because a stop or deletion of its database waits: nothing of its engine is wrong. */
export const endWaits = 'EndWaits'

/**
 * Milliseconds until an engine that started this long ago is probed again. Most do within half a second; what takes
 * long, such as a recovery, is not disturbed often, and some engines write a line for each time.
 */
export const askingPauseMs = (elapsedMs: number): number =>
  Math.min(2000, Math.max(Math.min(200, 10 + elapsedMs / 20), (elapsedMs - 50_000) / 50))

/** What a host process reads of one database at most: it reads those of all accounts. Beyond it there is no snapshot. */
export const comparisonLimits = {
  /** All that one conversation reads of what a database defines; about 5,000 tables of 150 columns, or 50,000 of 10. */
  definitionBytes: 128 * MiB,
  /** The same of a copy: earlier versions have taken snapshots of more, which can still be restored. */
  copyBytes: 1024 * MiB,
  /** Of roles in roles, in Postgres. */
  memberships: 100_000,
} as const

/** No password has this generation: the one that derives from it must always be refused. */
export const neverUsedGeneration = 0
