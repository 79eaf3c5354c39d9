import type { Db } from '../database.ts'

/** Records that writes of a database end because its disk is nearly full; since when stays, if they had ended before. */
export async function recordWritesEnded(db: Db, id: string): Promise<void> {
  await db('databases').where({ id, read_only_since: null }).update({ read_only_since: db.fn.now() })
}

/** Records that a database admits writes again; after its engine does. */
export async function recordWritesAdmitted(db: Db, id: string): Promise<void> {
  await db('databases').where({ id }).update({ read_only_since: null })
}

/** Records that the volume of a database is about to be made or grown for this much memory, in MB; less changes nothing. Call it before the volume grows. */
export async function recordDisk(db: Db, id: string, ramMb: number): Promise<void> {
  await db('databases').where({ id }).where('disk_for_mb', '<', ramMb).update({ disk_for_mb: ramMb })
}
