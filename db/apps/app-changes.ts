import type { Db } from '../database.ts'
import { type NotedTable, readChanges, sweepChanges } from '../row-changes.ts'

/** An application that was created, changed or deleted. */
interface ChangedApp {
  id: string
  /** Null where it has no address. */
  subdomain: string | null
}

export interface Changes {
  /** The reader knows everything up to this mark once it has acted on these changes. Opaque. */
  mark: string
  /** Null: all of them may have changed. */
  changed: ChangedApp[] | null
}

const apps: NotedTable = {
  ...{ rows: 'apps', changes: 'app_changes', epochs: 'app_change_epochs' },
  ...{ id: 'app_id', name: 'c.subdomain', key: 'number, app_id, host_id, subdomain' },
}

/** The applications whose rows have changed since `mark`, of one host where `hostId` is given (db/row-changes.ts). */
export async function changesSince(db: Db, mark: string | null, hostId: string | null = null): Promise<Changes> {
  const read = await readChanges(db, apps, mark, hostId)
  return { mark: read.mark, changed: read.changed?.map(({ id, name }) => ({ id, subdomain: name || null })) ?? null }
}

/** Deletes changes that every reader has read by now; resolves to their number. */
export const sweepAppChanges = (db: Db): Promise<number> => sweepChanges(db, apps)
