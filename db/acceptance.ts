import { failuresInARow } from '../policy/rounds.ts'
import { type Db, transaction, tryRoundLock } from './database.ts'
import * as segments from './objects/segments.ts'
import { announceOperationEnd, expireQueuedOperation, type OperationRow } from './operations/operations.ts'
import { lockForDeletion, revertTargetState, targetTables } from './operations/transient-states.ts'
import { revertRestoreHost } from './snapshots/restores.ts'
import { removeSnapshots } from './snapshots/snapshots.ts'
import { statement } from './statement.ts'
import { isAway, isStatementTimeout } from './unavailable.ts'

/** Whether an operation is stored, as far as can be seen now; confirmed or not. */
export async function isOperationStored(db: Db, operationId: string): Promise<boolean> {
  return (await look(db, [operationId])).length > 0
}

/**
 * Lets an operation start. Call it once the commit that stored the operation was answered; a repeated call changes nothing. False
 * when the operation is missing: it was undone, or never stored.
 */
export async function confirmOperation(db: Db, operationId: string): Promise<boolean> {
  for (;;) {
    const [row] = await confirmOne(db, [operationId])
    if (row?.confirmed) return true
    // A concurrent call was faster by less than a statement: the next iteration sees what it did.
    if (row?.state !== 'accepting') return row?.state != null
  }
}

/**
 * Removes an operation that was stored and never confirmed, with all that it reserved: memory, name, port, archive and key are free again.
 * False when it is missing or confirmed.
 */
export async function undoOperation(db: Db, operationId: string): Promise<boolean> {
  return transaction(db, async trx => {
    const unconfirmed = () => trx('operations').where({ id: operationId, state: 'accepting' })
    const stored = await unconfirmed().first('kind', 'target_type', 'target_id')
    if (stored) await lockForDeletion(trx, stored)
    const operation: OperationRow | undefined = await unconfirmed().forUpdate().first()
    if (!operation) return false
    const { kind, target_type: type, target_id: targetId } = operation
    const deployments: { id: string; segment_id: string | null }[] = await trx('deployments')
      .where({ operation_id: operationId })
      .select('id', 'segment_id')
    for (const { segment_id } of deployments) if (segment_id) await segments.releaseSegment(trx, segment_id)
    const ids = deployments.map(({ id }) => id)
    await trx('webhook_deliveries').whereIn('deployment_id', ids).delete()
    await trx('deployments').whereIn('id', ids).delete()
    await removeSnapshots(trx, await trx('snapshots').where({ operation_id: operationId }).select('id', 'segment_id'))
    await trx('idempotency_keys').where({ operation_id: operationId }).delete()
    if (kind === 'restore' && type === 'app') await revertRestoreHost(trx, targetId, operationId)
    if (kind === 'create') await trx(targetTables[type]).where({ id: targetId, accepting: true }).delete()
    await trx('operations').where({ id: operationId }).delete()
    await revertTargetState(trx, operation)
    return true
  })
}

/**
 * Undoes operations that were stored over `seconds` ago and never confirmed, and expires those that no lane claimed in time: their
 * callers were already answered. One process does it at a time. Resolves to the number undone. One that cannot be expired or undone is
 * passed to `failed` and tried again in the next round, also when it waited too long for a locked row; rejects while Postgres does not
 * answer, or when several in a row waited too long.
 */
export async function undoUnconfirmed(
  db: Db,
  seconds: number,
  failed: (operationId: string, error: unknown) => void = () => {},
  except: readonly string[] = [],
): Promise<number> {
  const { late, forgotten }: Record<'late' | 'forgotten', string[]> = await db.transaction(async trx => {
    if (!(await tryRoundLock(trx, 'acceptance'))) return { late: [], forgotten: [] }
    const late = trx('operations')
      .where({ state: 'queued' })
      .whereRaw('id <> all(?::text[])', [[...except]])
      .whereRaw('claim_before < now()')
      .orderBy('claim_before')
      .limit(500)
    const forgotten = trx('operations')
      .where({ state: 'accepting' })
      .whereRaw('id <> all(?::text[])', [[...except]])
      .whereRaw('created_at < now() - make_interval(secs => ?)', [seconds])
      .orderBy('created_at')
      .limit(500)
    return { late: await late.pluck('id'), forgotten: await forgotten.pluck('id') }
  })
  let undone = 0
  let timeouts = 0
  const attempt = async (id: string, work: () => Promise<void>) => {
    try {
      await work()
      timeouts = 0
    } catch (error) {
      if (isAway(error)) throw error
      failed(id, error)
      timeouts = isStatementTimeout(error) ? timeouts + 1 : 0
      if (timeouts === failuresInARow) throw error
    }
  }
  for (const id of late)
    await attempt(id, async () => {
      if (await expireQueuedOperation(db, id)) await announceOperationEnd(db, id)
    })
  for (const id of forgotten)
    await attempt(id, async () => {
      if (await undoOperation(db, id)) undone++
    })
  return undone
}

const look = statement<{ state: string }>('acceptance.look', `select state from operations where id = $1`)

const confirmOne = statement<{ confirmed: boolean; state: string | null }>(
  'acceptance.confirm',
  `with me as (
     update operations set state = 'queued' where id = $1 and state = 'accepting' returning target_type, target_id, kind
   ), app as (
     update apps set accepting = false from me where apps.id = me.target_id and me.kind = 'create' and me.target_type = 'app'
   ), hosted as (
     update databases set accepting = false from me
      where databases.id = me.target_id and me.kind = 'create' and me.target_type = 'database'
   )
   select exists (select 1 from me) as confirmed, (select state from operations where id = $1) as state`,
)
