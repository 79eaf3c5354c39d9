import { type Db, transaction } from './database.ts'
import { claimNext, type OperationKind, type OperationRow } from './operations.ts'
import { statement } from './statement.ts'

/** Who works on an operation: one run of its lane, at one of its steps. A later step of a run has a higher number. */
export interface Claim {
  run: string
  step: number
}

/** `held`: it may write. `repeated`: this very step ended the operation already. `lost`: the operation goes on without it, or has ended. */
export type Holding = 'held' | 'repeated' | 'lost'

/**
 * Whether an operation runs and is still this run's, and no later step of it has written. To be called first in the transaction of
 * whatever is written: the row is locked until its end. One that runs without a claim, begun by an older version, becomes this run's.
 */
export async function holdClaim(trx: Db, operationId: string, { run, step }: Claim): Promise<Holding> {
  if ((await hold(trx, [operationId, run, step])).length === 1) return 'held'
  const [row] = await ended(trx, [operationId, run, step])
  return row ? 'repeated' : 'lost'
}

const hold = statement(
  'operation-claims.hold',
  `update operations set claim = $2, claim_step = $3::int
    where id = $1 and state = 'running' and (claim is null or claim = $2) and claim_step <= $3::int returning 1`,
)

const ended = statement(
  'operation-claims.ended',
  `select 1 from operations
    where id = $1 and state <> 'running' and (claim is null or (claim = $2 and claim_step = $3::int))`,
)

/** `holdClaim` without writing, for who is about to act outside of Postgres. */
export async function isHeld(db: Db, operationId: string, { run, step }: Claim): Promise<boolean> {
  return (await held(db, [operationId, run, step])).length === 1
}

const held = statement(
  'operation-claims.held',
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
