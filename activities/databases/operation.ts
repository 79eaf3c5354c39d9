import type { DatabaseOperationKind } from '../../db/operations/operation-kinds.ts'

/** An operation as a database's lane runs it: ids and words, never a secret. */
export interface DatabaseOperation {
  id: string
  kind: DatabaseOperationKind
  databaseId: string
  ownerId: string
  hostId: string
  /** The desired state when the operation was claimed. */
  wasDesired: 'running' | 'stopped' | 'deleted'
  /** Whether its row said then that its engine runs. */
  wasRunning: boolean
}
