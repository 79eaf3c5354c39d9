import { backupFor, restorableRanges } from '../../../policy/databases/point-in-time.ts'
import { rangesWords } from '../../../policy/databases/restorable-words.ts'
import { CodedError } from '../../../policy/errors.ts'
import { type Db, transaction } from '../../database.ts'
import * as operations from '../../operations/operations.ts'
import { lockIdleDatabase } from '../database-snapshots.ts'
import { readRestorable } from './backups.ts'

export interface MomentRestoreRequest {
  databaseId: string
  actor: string
  to: Date
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Stores a restore of a database to what it was at a moment. Throws DATABASE_NOT_FOUND (also while it is being deleted),
 * RESTORE_IN_PROGRESS, SNAPSHOT_IN_PROGRESS, and INVALID_PARAMETERS, with what can be restored, for a moment that cannot.
 */
export async function queueMomentRestore(db: Db, request: MomentRestoreRequest): Promise<{ id: string }> {
  const { databaseId, actor, to, accepting } = request
  return transaction(db, async trx => {
    const database = await lockIdleDatabase(trx, databaseId)
    if (database.engine !== 'postgres')
      throw new CodedError('INVALID_PARAMETERS', 'Only a postgres database can be restored to a timestamp.')
    const { backups, servings } = await readRestorable(trx, database)
    const now = new Date()
    if (!backupFor(to, backups, servings, now))
      throw new CodedError('INVALID_PARAMETERS', rangesWords(to, restorableRanges(backups, servings, now), now))
    return operations.enqueueOperation(trx, {
      ...({ targetType: 'database', targetId: databaseId, kind: 'restore' } as const),
      ...{ ownerId: database.owner_id, actor, accepting, input: { to: to.toISOString() } },
    })
  })
}
