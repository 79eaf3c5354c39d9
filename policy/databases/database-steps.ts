/** Kinds after which the engine serves. */
const serving = ['create', 'start', 'resize', 'rotate', 'certify', 'restore'] as const

/** Steps on a database's host, and the kinds of operations that use them. */
export const databaseSteps = {
  prepareDatabase: ['create'],
  startDatabase: serving,
  stopDatabase: ['stop', 'resize', 'restore'],
  setDatabasePassword: ['create', 'rotate', 'restore'],
  reissueCertificate: ['certify'],
  removeDatabaseContainers: ['create', 'delete'],
  removeDatabaseVolumes: ['create', 'delete'],
  awaitDatabaseSnapshotPlace: ['snapshot'],
  takeDatabaseSnapshot: ['snapshot'],
  prepareRestore: ['restore'],
  discardRestore: ['restore'],
} as const satisfies Record<string, readonly string[]>

export type DatabaseStepName = keyof typeof databaseSteps

/** Time of steps at the host in seconds. */
export const databaseSeconds = {
  /** From the start of a container until its engine serves: recovery after a crash reads the log of changes since its last checkpoint. */
  serve: 60,
  /** One job that makes a data folder. */
  initialise: 60,
  /** One login that proves a password. */
  login: 10,
} as const

/** No password has this generation: the one that derives from it must always be refused. */
export const neverUsedGeneration = 0
