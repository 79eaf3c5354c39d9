/** Restores of snapshots elsewhere that prove that they can be restored. */
export const drillRules = {
  /** Seconds until a database is tried again after a drill was requested that ended without good evidence. */
  retrySeconds: 86_400,
  /** Drills that a round requests; each host does one at a time. */
  atOnce: 20,
  /** How often due drills are looked up, in seconds. */
  lookSeconds: 60,
  /** Days for which evidence is retained. */
  retainedDays: 400,
  /** Memory in MB that a host must have left to do the drill of a database of another host, at least. */
  minMemoryMb: 1024,
} as const

/** A snapshot is the way back from an upgrade while it is so young. */
export const wayBack = { snapshotHours: 24 } as const

/** Codes of what prevented a drill from trying the snapshot: the object store, the host or its disk, our own Postgres. */
const preventions: ReadonlySet<string> = new Set([
  'SNAPSHOT_RESTORE_FAILED',
  'CONTAINER_INSUFFICIENT_DISK_SPACE',
  'CLUSTER_TIMEOUT',
  'SNAPSHOT_FAILED',
])

/** `good`: it can be restored. `failed`: it cannot, or its engine does not serve with it. `prevented`: nothing is known of it. */
export type DrillOutcome = 'good' | 'failed' | 'prevented'

/** What a drill that ended with this code has shown; null = with equal contents. */
export const drillOutcome = (code: string | null): DrillOutcome =>
  code === null ? 'good' : preventions.has(code) ? 'prevented' : 'failed'
