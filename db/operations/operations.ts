import { storable } from '../../lib/storable-text.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'
import {
  concurrentKinds,
  type KindsOf,
  type OperationClaim,
  type OperationRow,
  type OperationTarget,
  operationColumns,
  type TargetType,
} from './operation-kinds.ts'
import { isRestorePending } from './operation-lookups.ts'
import { lockForDeletion, requestDeletion, revertTargetState } from './transient-states.ts'

export {
  type DatabaseOperationKind,
  type OperationKind,
  type OperationRow,
  type OperationState,
  type OperationTarget,
  rollbackFailing as stuckGoingBack,
  rollingBack as goingBack,
  switchingVersions as changingVersions,
  watchActor,
} from './operation-kinds.ts'
export {
  findFailedCreation as failedCreation,
  isDeletionPending,
  isReleasePending as isUnderWay,
  isReleaseSwitching as changesRelease,
  isRestorePending,
  isTargetBusy as isBusy,
  isTargetSwitching as isSwitching,
  listSwitchingSubdomains as switchingSubdomains,
  listWaitingTargets,
  secondsUntilAnswer,
  type WaitingTarget,
  wasTargetRemoved as wasRemoved,
} from './operation-lookups.ts'

export type NewOperation = OperationTerms &
  ({ targetType?: 'app'; kind: KindsOf['app'] } | { targetType: 'database'; kind: KindsOf['database'] })

interface OperationTerms {
  targetId: string
  ownerId: string
  /** User id of the caller, `host-watch`, `health-check`, or `operator:<name>`. */
  actor: string
  input?: Record<string, unknown>
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
  /** It must be claimed within this time, or it expires. */
  claimWithinMs?: number
  /** When its caller is answered. After that no step may start that would make the answer wrong. */
  endWithinMs?: number
}

/** Stores an operation; once committed it is in the queue. */
export async function enqueueOperation(db: Db, operation: NewOperation): Promise<{ id: string }> {
  const id = newId()
  await db('operations').insert({
    id,
    target_type: operation.targetType ?? 'app',
    target_id: operation.targetId,
    kind: operation.kind,
    owner_id: operation.ownerId,
    actor: operation.actor,
    input: JSON.stringify(operation.input ?? {}),
    state: operation.accepting ? 'accepting' : 'queued',
    claim_before: fromNow(db, operation.claimWithinMs),
    end_before: fromNow(db, operation.endWithinMs),
  })
  return { id }
}

const fromNow = (db: Db, ms: number | undefined) =>
  ms === undefined ? null : db.raw('now() + make_interval(secs => ?)', [ms / 1000])

/**
 * Queues a deletion, unless a restore waits or runs (contract 4.5). Both are stored under the lock of the target's row, so that no
 * race allows both. The desired state is `deleted` until the deletion has failed. Throws RESTORE_IN_PROGRESS.
 */
export async function enqueueDeletion(db: Db, operation: NewOperation): Promise<{ id: string }> {
  return transaction(db, async trx => {
    const { targetType: type = 'app', targetId: id, kind } = operation
    await lockForDeletion(trx, { kind, target_type: type, target_id: id })
    if (await isRestorePending(trx, id, type)) throw new CodedError('RESTORE_IN_PROGRESS')
    await requestDeletion(trx, { type, id })
    return enqueueOperation(trx, operation)
  })
}

export async function findOperation(db: Db, id: string): Promise<OperationRow | undefined> {
  return (await find(db, [id]))[0]
}

const find = statement<OperationRow>('operations.find', `select ${operationColumns} from operations where id = $1`)

/** Compare-and-set queued -> expired: true means that it can never run. */
export async function expireQueuedOperation(db: Db, id: string): Promise<boolean> {
  return transaction(db, async trx => {
    const operation = await findOperation(trx, id)
    if (operation?.state !== 'queued') return false
    await lockForDeletion(trx, operation)
    const changed = await trx('operations')
      .where({ id, state: 'queued' })
      .update({ state: 'expired', code: 'ACTION_FAILED', finished_at: trx.fn.now() })
    if (changed) await revertTargetState(trx, operation)
    return changed === 1
  })
}

/**
 * The operation that a lane runs next: one that it has already started (a retry, or a new Temporal after a lost one), else the oldest
 * queued one, deletions first. Skips kinds that must not run concurrently with `inProgress`, the kinds that the lane works on.
 */
export async function claimNextOperation<Type extends TargetType>(
  db: Db,
  { type, id }: OperationTarget<Type>,
  inProgress: readonly KindsOf[Type][] = [],
  claim: Partial<OperationClaim> = {},
): Promise<OperationRow<KindsOf[Type]> | undefined> {
  const busy: readonly string[] = inProgress
  const excluded = concurrentKinds.filter(group => group.some(kind => busy.includes(kind))).flat()
  const [claimed] = await claimNext(db, [type, id, excluded, claim.run ?? null, claim.step ?? null])
  return claimed as OperationRow<KindsOf[Type]> | undefined
}

/** Callers of expired ones were already answered that no lane claimed them. */
const isClaimable = '(claim_before is null or claim_before > now())'

// Compared with `=`: for `in` Postgres may run the subquery again for every row, and each time skip to the next free one.
const claimNext = statement<OperationRow<string>>(
  'operations.claim-next',
  `with begun as (
     select id from operations
      where target_type = $1 and target_id = $2 and state = 'running' and kind <> all($3::text[]) order by seq limit 1
   ), next as (
     select id from operations
      where target_type = $1 and target_id = $2 and state = 'queued' and kind <> all($3::text[]) and ${isClaimable}
        and not exists (select from begun)
      order by kind = 'delete' desc, seq limit 1 for update skip locked
   )
   update operations set state = 'running', started_at = case state when 'queued' then now() else started_at end,
          claim = coalesce($4, claim), claim_step = greatest(claim_step, $5::int)
    where id = coalesce((select id from begun), (select id from next)) and state in ('queued', 'running')
   returning ${operationColumns}`,
)

/** Ids of running operations of a target that must be cancelled: all when a deletion is queued, else those whose cancellation was requested. */
export async function findOperationsToCancel(db: Db, { type, id }: OperationTarget): Promise<string[]> {
  const ofTarget = () => db('operations').where({ target_type: type, target_id: id })
  const deletion = await ofTarget().where({ kind: 'delete', state: 'queued' }).whereRaw(isClaimable).first('id')
  const running = ofTarget().where({ state: 'running' })
  const rows = await (deletion ? running : running.whereNotNull('cancel_requested_at')).select('id')
  return rows.map((row: { id: string }) => row.id)
}

/** Records the current step of an operation, as text for operators. */
export async function recordStep(db: Db, id: string, step: string): Promise<void> {
  await db('operations')
    .where({ id, state: 'running' })
    .update({ step: storable(step) })
}

export interface OperationOutcome {
  state: 'success' | 'error' | 'cancelled'
  code?: string
  message?: string
}

/** Records the end, in the caller's transaction, and notifies waiting processes. A second call changes nothing. */
export async function finishOperation(trx: Db, id: string, outcome: OperationOutcome): Promise<void> {
  const { state, code = null, message } = outcome
  const [finished] = await end(trx, [id, state, code, message === undefined ? null : storable(message)])
  if (finished && finished.kind !== null && state !== 'success') await revertTargetState(trx, finished)
}

type Ended = Pick<OperationRow<string>, 'kind' | 'target_type' | 'target_id'>

const end = statement<Ended | { kind: null }>(
  'operations.end',
  `with ended as (
     update operations set state = $2, code = $3, message = $4, finished_at = now() where id = $1 and state = 'running'
     returning kind, target_type, target_id
   )
   select ended.*, pg_notify('operations', $1) from (select) as always left join ended on true`,
)

/**
 * Ends all queued operations of a deleted target: deletions have succeeded, the others have lost their target. One statement for any
 * number. Resolves to their ids.
 */
export async function endQueuedOperations(db: Db, { type, id }: OperationTarget): Promise<string[]> {
  const { rows } = await db.raw(
    `with ended as (
       update operations
          set state = case when kind = 'delete' then 'success' else 'cancelled' end,
              code = case when kind = 'delete' then null else ? end,
              finished_at = now()
        where target_type = ? and target_id = ? and state in ('accepting', 'queued') returning id)
     select id, pg_notify('operations', id) from ended`,
    [type === 'app' ? 'APP_NOT_FOUND' : 'DATABASE_NOT_FOUND', type, id],
  )
  return rows.map((row: { id: string }) => row.id)
}

/** Notifies every process that an operation, or a step to a lower plan, has ended. */
export async function announceOperationEnd(db: Db, id: string): Promise<void> {
  await db.raw(`select pg_notify('operations', ?)`, [id])
}
