import type { Db } from '../database.ts'
import { type NotedTable, readChanges, sweepChanges } from '../row-changes.ts'

export interface DatabaseChanges {
  /** The reader knows everything up to this mark once it has acted on these changes. Opaque. */
  mark: string
  /** Databases that were created, changed or deleted. Null: all of them may have changed. */
  changed: { id: string }[] | null
}

const databases: NotedTable = {
  ...{ rows: 'databases', changes: 'database_changes', epochs: 'database_change_epochs' },
  ...{ id: 'database_id', name: `''`, key: 'number, database_id, host_id' },
}

/** The databases of a host whose rows have changed since `mark`; null = a reader that knows nothing (db/row-changes.ts). */
export async function databaseChangesSince(db: Db, mark: string | null, hostId: string): Promise<DatabaseChanges> {
  const { mark: next, changed } = await readChanges(db, databases, mark, hostId)
  return { mark: next, changed: changed?.map(({ id }) => ({ id })) ?? null }
}

/** Deletes changes that every reader has read by now; resolves to their number. */
export const sweepDatabaseChanges = (db: Db): Promise<number> => sweepChanges(db, databases)
