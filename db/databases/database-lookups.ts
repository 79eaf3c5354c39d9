import type { Db } from '../database.ts'
import type { DatabaseRow } from './database-rows.ts'

/** Whether any operation of this database waits, runs, or may be accepted: it may use containers and volumes that do not serve. */
export async function isDatabaseInUse(db: Db, id: string): Promise<boolean> {
  const pending = db('operations')
    .where({ target_type: 'database', target_id: id })
    .whereIn('state', ['accepting', 'queued', 'running'])
  return Boolean(await pending.first('id'))
}

/** The volumes that a host must have: of databases that have served, and are not being deleted. */
export function listServedVolumes(db: Db, hostId: string): Promise<Pick<DatabaseRow, 'id' | 'generation'>[]> {
  const served = db('databases').where({ host_id: hostId }).whereNotNull('provisioned_at')
  return served.whereNot({ desired_state: 'deleted' }).orderBy('id').select('id', 'generation')
}
