import { lockForDeletion, takeBack } from './apps/passing-states.ts'
import { type Db, isMine, transaction } from './database.ts'
import { lockForDeploy, settleDeploy } from './deploys/deploys.ts'
import * as segments from './objects/segments.ts'
import { announce, expireQueued } from './operations/operations.ts'
import { unplace } from './snapshots/restores.ts'
import { removeSnapshots } from './snapshots/snapshots.ts'
import { statement } from './statement.ts'
import { isUnavailable } from './unavailable.ts'

/** Whether an operation is stored, as far as can be seen now; confirmed or not. */
export async function isStored(db: Db, operationId: string): Promise<boolean> {
  return (await look(db, [operationId])).length > 0
}

/**
 * Lets an operation be begun. To be called after the commit that stored it was answered, and as often as one likes. False when it
 * is not there: it was undone, or never stored.
 */
export async function confirm(db: Db, operationId: string): Promise<boolean> {
  for (;;) {
    const [seen] = await confirmOne(db, [operationId])
    if (seen?.confirmed) return true
    // Another try was faster by less than a statement: what it did is seen by the next look.
    if (seen?.state !== 'accepting') return seen?.state != null
  }
}

/** As `confirm`, of a push: it supersedes what waits of its branch, and is superseded by a newer one that was confirmed before. */
export async function confirmPush(db: Db, appId: string, operationId: string): Promise<boolean> {
  return transaction(db, async trx => {
    if (await lockForDeploy(trx, appId)) await settleDeploy(trx, operationId)
    const [seen] = await look(trx, [operationId])
    return seen !== undefined && seen.state !== 'accepting'
  })
}

/**
 * Takes back, wholly, what was stored and never confirmed: memory, name, archive and key are free again. False when it is not there,
 * or confirmed.
 */
export async function undo(db: Db, operationId: string): Promise<boolean> {
  return transaction(db, async trx => {
    const mine = () => trx('operations').where({ id: operationId, state: 'accepting' })
    const stored = await mine().first('kind', 'target_id')
    if (stored) await lockForDeletion(trx, stored)
    const operation = await mine().forUpdate().first()
    if (!operation) return false
    const made: { id: string; segment_id: string | null }[] = await trx('deployments')
      .where({ operation_id: operationId })
      .select('id', 'segment_id')
    for (const { segment_id } of made) if (segment_id) await segments.release(trx, segment_id)
    const ids = made.map(({ id }) => id)
    await trx('webhook_deliveries').whereIn('deployment_id', ids).delete()
    await trx('deployments').whereIn('id', ids).delete()
    await removeSnapshots(trx, await trx('snapshots').where({ operation_id: operationId }).select('id', 'segment_id'))
    await trx('idempotency_keys').where({ operation_id: operationId }).delete()
    if (operation.kind === 'restore') await unplace(trx, operation.target_id, operationId)
    if (operation.kind === 'create') await trx('apps').where({ id: operation.target_id, accepting: true }).delete()
    await trx('operations').where({ id: operationId }).delete()
    await takeBack(trx, operation)
    return true
  })
}

/**
 * Undoes what was stored over `seconds` ago and never confirmed, and ends what nobody took in time: who waited for it was told so.
 * One process does it at a time. Resolves to how many were undone. One that cannot be ended or undone is given to `failed` and comes
 * again; rejects only while Postgres does not answer.
 */
export async function undoForgotten(
  db: Db,
  seconds: number,
  failed: (operationId: string, error: unknown) => void = () => {},
  except: readonly string[] = [],
): Promise<number> {
  const { late, forgotten }: Record<'late' | 'forgotten', string[]> = await db.transaction(async trx => {
    if (!(await isMine(trx, 'acceptance'))) return { late: [], forgotten: [] }
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
  const attempt = async (id: string, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (isUnavailable(error)) throw error
      failed(id, error)
    }
  }
  for (const id of late)
    await attempt(id, async () => {
      if (await expireQueued(db, id)) await announce(db, id)
    })
  for (const id of forgotten)
    await attempt(id, async () => {
      if (await undo(db, id)) undone++
    })
  return undone
}

const look = statement<{ state: string }>('acceptance.look', `select state from operations where id = $1`)

const confirmOne = statement<{ confirmed: boolean; state: string | null }>(
  'acceptance.confirm',
  `with me as (
     update operations set state = 'queued' where id = $1 and state = 'accepting' returning target_id, kind
   ), app as (
     update apps set accepting = false from me where apps.id = me.target_id and me.kind = 'create'
   )
   select exists (select 1 from me) as confirmed, (select state from operations where id = $1) as state`,
)
