import type { RestartPlan } from '../../policy/databases/restarts.ts'
import type { Db } from '../database.ts'

/** Records when the engine of a database that has ended is started again; false when its row changed meanwhile. */
export async function recordRestartPlan(db: Db, id: string, { crashes, restartAt }: RestartPlan): Promise<boolean> {
  const changed = await db('databases')
    .where({ id, status: 'exited', desired_state: 'running' })
    .update({ restarts: crashes, restart_at: restartAt })
  return changed === 1
}

/** Takes the restart that is due, in the transaction that queues it: no other round queues it again. False when there is none any more. */
export async function takeRestart(trx: Db, id: string): Promise<boolean> {
  const changed = await trx('databases')
    .where({ id, status: 'exited', desired_state: 'running' })
    .whereNotNull('restart_at')
    .update({ restart_at: null })
  return changed === 1
}

/** Its engine runs well: the next crash is the first one again. */
export async function forgetCrashes(db: Db, id: string): Promise<void> {
  await db('databases').where({ id }).update({ restarts: 0 })
}
