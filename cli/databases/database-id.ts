import type { Db } from '../../db/database.ts'
import { findDeletedDatabase, resolveTarget } from '../../db/databases/database-operator.ts'
import type { TargetType } from '../../db/operations/operation-kinds.ts'

export const idWords = 'its id, or the first characters of it'

/** The only database whose id begins like this. Throws an Error that says what became of a deleted one. */
export async function databaseIdFrom(db: Db, start: string): Promise<string> {
  const id = await idFrom(db, 'database', start)
  if (id) return id
  const deleted = await findDeletedDatabase(db, start)
  if (deleted)
    throw new Error(`The database ${deleted} was deleted, or never created. Why: berth ops list --database ${deleted}`)
  throw new Error(`There is no database "${start}". See: berth databases list`)
}

/** Undefined when no id begins like this. Throws an Error that names the candidates if there are several. */
export async function idFrom(db: Db, type: TargetType, start: string): Promise<string | undefined> {
  const [id, ...others] = await resolveTarget(db, type, start)
  if (others.length > 0) throw new Error(`"${start}" matches several: ${[id, ...others].join(', ')}`)
  return id
}
