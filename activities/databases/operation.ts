import type { DatabaseOperationKind } from '../../db/operations/operation-kinds.ts'

/** An operation as a database's lane runs it: ids and words, never a secret. */
export interface DatabaseOperation {
  id: string
  kind: DatabaseOperationKind
  databaseId: string
  ownerId: string
  /** Where its steps are done: the host of the database, or the one that a drill has chosen. */
  hostId: string
  /** A change to less memory of an engine whose data are all in memory: whether they fit is checked first. */
  mustFit?: boolean
  /** A change of memory to what the row has already: nothing is to be done. Absent in a claim of an earlier version. */
  isSameMemory?: boolean
  /** The desired state when the operation was claimed. */
  wasDesired: 'running' | 'stopped' | 'deleted'
  /** Whether its row then had its engine as running, or as restarted by an operation. */
  wasRunning: boolean
  /** Only the latter; absent in a claim of an earlier version. */
  wasRestarting?: boolean
  /** Another run, which Temporal has lost, had started: effects that exist already may be its own. */
  wasBegun?: boolean
}
