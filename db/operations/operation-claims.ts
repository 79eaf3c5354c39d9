import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'
import type {
  DatabaseOperationKind,
  KindsOf,
  OperationClaim,
  OperationKind,
  OperationTarget,
  TargetType,
} from './operation-kinds.ts'
import { claimNextOperation, type OperationRow } from './operations.ts'

export type { OperationClaim } from './operation-kinds.ts'

/** What a writer takes an operation for; one of the ids at most. */
export interface OperationSubject {
  appId?: string
  databaseId?: string
  kind?: OperationKind | DatabaseOperationKind
  /** Its deployment, and the number of the release. */
  deployment?: { id: string; release: number }
}

/**
 * `held`: it may write. `ended`: this run has ended the operation already, and repeats itself, as a lane does after its worker died.
 * `lost`: the operation belongs to another run.
 */
export type ClaimState = 'held' | 'ended' | 'lost'

/**
 * Whether an operation runs and still belongs to this run; one that does not match `subject` is lost. Call it first in every transaction
 * that writes: it locks the row until the end. An operation that an older version started without a claim becomes this run's.
 */
export async function holdClaim(
  trx: Db,
  operationId: string,
  { run, step }: OperationClaim,
  subject: OperationSubject = {},
): Promise<ClaimState> {
  const { appId, databaseId, kind = null, deployment } = subject
  const [type, targetId] = databaseId === undefined ? ['app', appId ?? null] : ['database', databaseId]
  const values = [operationId, run, targetId, kind, deployment?.id ?? null, deployment?.release ?? null, type]
  if ((await hold(trx, [...values, step])).length === 1) return 'held'
  const [row] = await look(trx, values)
  if (!row) return 'lost'
  return row.running ? 'held' : 'ended'
}

const matches = `id = $1 and (claim is null or claim = $2)
  and ($3::text is null or (target_type = $7 and target_id = $3)) and ($4::text is null or kind = $4)
  and ($5::text is null
    or exists (select 1 from deployments d where d.id = $5 and d.operation_id = operations.id and d.release = $6::int))`

const hold = statement(
  'operation-claims.hold',
  `update operations set claim = $2, claim_step = greatest(claim_step, $8::int)
    where ${matches} and state = 'running' returning 1`,
)

const look = statement<{ running: boolean }>(
  'operation-claims.look',
  `select state = 'running' as running from operations where ${matches}`,
)

/**
 * Whether an operation runs, belongs to this run, and no later step of it has written: then this step was not abandoned. For steps
 * outside of the lane's worker, which never start again when a history is replayed.
 */
export async function isClaimCurrent(db: Db, operationId: string, { run, step }: OperationClaim): Promise<boolean> {
  return (await current(db, [operationId, run, step])).length === 1
}

const current = statement(
  'operation-claims.current',
  `select 1 from operations
    where id = $1 and state = 'running' and (claim is null or claim = $2) and claim_step <= $3::int`,
)

/**
 * Gives running operations of a target to this run; their previous run can no longer write. False for a run that has lost an operation
 * of the target itself: it takes none back.
 */
async function takeOver(db: Db, { type, id }: OperationTarget, { run, step }: OperationClaim): Promise<boolean> {
  const [row] = await take(db, [id, run, step, type])
  return row !== undefined && !row.lost
}

const take = statement<{ lost: boolean }>(
  'operation-claims.take',
  `with lost as (
     select exists (select 1 from operations
       where target_type = $4 and target_id = $1 and state = 'running' and $2 = any(claims_lost)) as lost
   ), taken as (
     update operations
        set claims_lost = case when claim is null then claims_lost else claims_lost || claim end, claim = $2, claim_step = $3::int
      where target_type = $4 and target_id = $1 and state = 'running' and claim is distinct from $2 and not (select lost from lost)
   )
   select lost from lost`,
)

/**
 * `claimNextOperation` for one run of a lane: takes over operations that another run has started, so that two runs never work on one target.
 * Undefined also for a run whose own operations were taken over.
 */
export async function claimNextOperationFor<Type extends TargetType>(
  db: Db,
  target: OperationTarget<Type>,
  claim: OperationClaim,
  inProgress: readonly KindsOf[Type][],
): Promise<OperationRow<KindsOf[Type]> | undefined> {
  return transaction(db, async trx => {
    await trx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`berth.lane.${target.id}`])
    if (!(await takeOver(trx, target, claim))) return undefined
    return claimNextOperation(trx, target, inProgress, claim)
  })
}

/** What else a lane wants to know about an operation that it has just claimed. */
export interface ClaimFindings {
  /** Another operation of the target waits, or was started by an earlier run. */
  othersWait: boolean
  /** It must not run: its cancellation was requested, or a deletion waits. */
  cancelled: boolean
  /** Seconds until its caller gets an answer; null when no caller waits. */
  secondsLeft: number | null
}

/** Read with the claim, so that the lane needs no step of its own for each. Undefined when there is no such operation. */
export async function readClaimFindings(db: Db, operationId: string): Promise<ClaimFindings | undefined> {
  return (await find(db, [operationId]))[0]
}

const find = statement<ClaimFindings>(
  'operation-claims.find',
  `with others as (
     select o.kind, o.state, o.claim_before from operations o
       join operations own on own.target_type = o.target_type and own.target_id = o.target_id and own.id <> o.id
      where own.id = $1 and o.state in ('queued', 'running')
   )
   select exists (select 1 from others) as "othersWait",
          cancel_requested_at is not null or exists (
            select 1 from others
             where kind = 'delete' and state = 'queued' and (claim_before is null or claim_before > now())
          ) as cancelled,
          extract(epoch from end_before - clock_timestamp())::float8 as "secondsLeft"
     from operations where id = $1`,
)

/** Whether another run, which Temporal has lost, had started this operation: its steps may have had their effects. */
export async function wasTakenOver(db: Db, operationId: string): Promise<boolean> {
  const row = await db('operations').where({ id: operationId }).first('claims_lost')
  return (row?.claims_lost.length ?? 0) > 0
}

/** Shows a restart that this run has just claimed, in the status of its application; its end reverts that. False = it lost the claim. */
export async function showRestart(db: Db, operationId: string, { run, step }: OperationClaim): Promise<boolean> {
  return (await show(db, [operationId, run, step])).length === 1
}

const show = statement(
  'operation-claims.show',
  `with held as (
     update operations set claim = $2, claim_step = greatest(claim_step, $3::int), step = 'restarting the container'
      where id = $1 and (claim is null or claim = $2) and state = 'running' returning target_id
   ), shown as (
     update apps set status = 'restarting' from held where apps.id = held.target_id and status <> 'deleting'
   )
   select 1 from held`,
)
