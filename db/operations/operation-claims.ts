import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'
import { claimNext, type OperationKind, type OperationRow } from './operations.ts'

/** Who works on an operation: one run of its lane, at one of its steps. A later step of a run has a higher number. */
export interface Claim {
  run: string
  step: number
}

/** What an operation is taken to be by who writes about it. */
export interface Subject {
  appId?: string
  kind?: OperationKind
  /** The deployment that it brings, and the number of its release. */
  deployment?: { id: string; release: number }
}

/**
 * `held`: it may write. `ended`: this run has ended the operation already, and repeats what it did before, as a lane does after its
 * worker died. `lost`: the operation is another run's.
 */
export type Holding = 'held' | 'ended' | 'lost'

/**
 * Whether an operation runs and is still this run's; one that is not what `subject` takes it for is lost. To be called first in the
 * transaction of whatever is written: the row is locked until its end. One that runs without a claim, begun by an older version,
 * becomes this run's.
 */
export async function holdClaim(
  trx: Db,
  operationId: string,
  { run, step }: Claim,
  subject: Subject = {},
): Promise<Holding> {
  const { appId = null, kind = null, deployment } = subject
  const known = [operationId, run, appId, kind, deployment?.id ?? null, deployment?.release ?? null]
  if ((await hold(trx, [...known, step])).length === 1) return 'held'
  const [row] = await look(trx, known)
  if (!row) return 'lost'
  return row.running ? 'held' : 'ended'
}

const isIt = `id = $1 and (claim is null or claim = $2)
  and ($3::text is null or (target_type = 'app' and target_id = $3)) and ($4::text is null or kind = $4)
  and ($5::text is null
    or exists (select 1 from deployments d where d.id = $5 and d.operation_id = operations.id and d.release = $6::int))`

const hold = statement(
  'operation-claims.hold',
  `update operations set claim = $2, claim_step = greatest(claim_step, $7::int)
    where ${isIt} and state = 'running' returning 1`,
)

const look = statement<{ running: boolean }>(
  'operation-claims.look',
  `select state = 'running' as running from operations where ${isIt}`,
)

/**
 * Whether an operation runs, is this run's, and no later step of it has written: then this one was not given up. For steps outside of
 * the worker of the lane, which are never begun anew when a history is replayed.
 */
export async function isCurrent(db: Db, operationId: string, { run, step }: Claim): Promise<boolean> {
  return (await current(db, [operationId, run, step])).length === 1
}

const current = statement(
  'operation-claims.current',
  `select 1 from operations
    where id = $1 and state = 'running' and (claim is null or claim = $2) and claim_step <= $3::int`,
)

/**
 * What runs for a target becomes this run's; the run that had it writes nothing more. A run that has lost an operation of the target
 * takes none back: false.
 */
async function takeOver(db: Db, targetId: string, { run, step }: Claim): Promise<boolean> {
  const [row] = await take(db, [targetId, run, step])
  return row !== undefined && !row.lost
}

const take = statement<{ lost: boolean }>(
  'operation-claims.take',
  `with lost as (
     select exists (select 1 from operations
       where target_type = 'app' and target_id = $1 and state = 'running' and $2 = any(claims_lost)) as lost
   ), taken as (
     update operations
        set claims_lost = case when claim is null then claims_lost else claims_lost || claim end, claim = $2, claim_step = $3::int
      where target_type = 'app' and target_id = $1 and state = 'running' and claim is distinct from $2 and not (select lost from lost)
   )
   select lost from lost`,
)

/**
 * `claimNext` for one run of a lane: what another run had begun is taken over, and never two runs work on one target. Undefined also
 * for a run that was itself taken over.
 */
export async function claimNextFor(
  db: Db,
  targetId: string,
  claim: Claim,
  underWay: readonly OperationKind[],
): Promise<OperationRow | undefined> {
  return transaction(db, async trx => {
    await trx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`berth.lane.${targetId}`])
    if (!(await takeOver(trx, targetId, claim))) return undefined
    const operation = await claimNext(trx, targetId, underWay)
    if (operation) await begin(trx, [operation.id, claim.run, claim.step])
    return operation
  })
}

const begin = statement(
  'operation-claims.begin',
  `update operations set claim = $2, claim_step = greatest(claim_step, $3::int) where id = $1`,
)
