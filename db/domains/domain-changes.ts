import type { Db } from '../database.ts'
import { type NotedTable, readChanges, sweepChanges } from '../row-changes.ts'

const domains: NotedTable = {
  ...{ rows: 'domains', changes: 'domain_changes', epochs: 'domain_change_epochs' },
  ...{ id: 'hostname', name: `''`, key: 'number, hostname' },
}

/** The host names whose members or certificate have changed since `mark`; null: all may have (db/row-changes.ts). */
export async function domainChangesSince(
  db: Db,
  mark: string | null,
): Promise<{ mark: string; changed: string[] | null }> {
  const read = await readChanges(db, domains, mark, null)
  return { mark: read.mark, changed: read.changed?.map(({ id }) => id) ?? null }
}

/** Deletes changes that every reader has read by now; resolves to their number. */
export const sweepDomainChanges = (db: Db): Promise<number> => sweepChanges(db, domains)
