import { type Db, transaction } from '../database.ts'
import { announceOperationEnd } from '../operations/operations.ts'
import { removeDatabase } from './database-creation.ts'

/**
 * Ends a creation that takes too long for its caller. A queued one ends here, and nothing is left of its database; a running one is
 * cancelled by its lane, which the caller must wake. Resolves to whether it ended here.
 */
export async function abandonCreation(db: Db, operationId: string): Promise<boolean> {
  return transaction(db, async trx => {
    const creation = () => trx('operations').where({ id: operationId, target_type: 'database', kind: 'create' })
    const [ended] = await creation()
      .where({ state: 'queued' })
      .update({
        state: 'cancelled',
        code: 'DATABASE_CREATION_FAILED',
        message: 'The creation did not begin in time. Try again.',
        finished_at: trx.fn.now(),
      })
      .returning('target_id')
    if (ended) {
      await removeDatabase(trx, ended.target_id)
      await announceOperationEnd(trx, operationId)
      return true
    }
    await creation().where({ state: 'running' }).update({ cancel_requested_at: trx.fn.now() })
    return false
  })
}
