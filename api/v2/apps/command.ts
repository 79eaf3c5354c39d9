import type { AppRow } from '../../../db/apps/apps.ts'
import { type Db, isUnavailable } from '../../../db/database.ts'
import {
  type DatabaseOperationKind,
  enqueueDeletion,
  enqueueOperation,
  expireQueuedOperation,
  findOperation,
  type NewOperation,
  type OperationKind,
  type OperationRow,
} from '../../../db/operations/operations.ts'
import { CodedError, type ErrorCode, isErrorCode } from '../../../policy/errors.ts'
import type { CommandTimeouts } from '../../../policy/timeouts.ts'
import type { Exchange } from '../../http/exchange.ts'
import { accept } from '../../pipeline/acceptance.ts'
import { assertNotLost } from '../../pipeline/access.ts'
import type { Call } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

type AppCall = Pick<Call<{ scope: null; permission: 'control' }>, 'app' | 'caller' | 'exchange'>
type DatabaseCall = Pick<Call<{ scope: null; database: true }>, 'database' | 'caller' | 'exchange'>

export interface Command<Kind extends string = OperationKind> {
  kind: Kind
  input?: Record<string, unknown>
  /** Changes that are stored together with the command. */
  alongside?(trx: Db): Promise<void>
  /** The answer when the operation failed with none of `codes`. */
  failure: ErrorCode
  /** The answer while the operation still runs at the end of the wait; default: as when it failed. */
  undecided?: () => CodedError
  /** Codes of the operation that are answered unchanged. */
  codes: readonly ErrorCode[]
}

/** Stores a command for an application, wakes its lane, and waits for the outcome. Throws the code of a failure. */
export async function runCommand(call: AppCall, services: Services, command: Command): Promise<void> {
  const { app } = call
  const { kind } = command
  const operation = { targetId: app.id, kind, ownerId: app.owner_id, actor: call.caller.user.id }
  await carryOut(operation, () => wakeLane(services, app), call.exchange, services, command)
}

/** As `runCommand`, for a database; resolves to the operation, which has succeeded. */
export async function runDatabaseCommand(
  call: DatabaseCall,
  services: Services,
  command: Command<DatabaseOperationKind>,
): Promise<OperationRow> {
  const { id: targetId, owner_id: ownerId } = call.database
  const { kind, input } = command
  if (kind !== 'delete') assertNotLost(call.database)
  const operation = { targetType: 'database', targetId, kind, input, ownerId, actor: call.caller.user.id } as const
  return carryOut(operation, () => wakeDatabaseLane(services, call.database), call.exchange, services, command)
}

async function carryOut(
  operation: NewOperation,
  wake: () => void,
  exchange: Exchange,
  services: Services,
  { alongside, codes, failure, undecided }: Omit<Command, 'kind'>,
): Promise<OperationRow> {
  const enqueue = operation.kind === 'delete' ? enqueueDeletion : enqueueOperation
  const { claimMs: claimWithinMs, holdMs: endWithinMs } = services.timeouts
  const { operationId } = await accept(services, async trx => {
    await alongside?.(trx)
    const { id } = await enqueue(trx, { ...operation, claimWithinMs, endWithinMs, accepting: true })
    return { operationId: id }
  })
  exchange.headers['X-Operation-Id'] = operationId
  wake()
  const outcome = ofTarget(await waitForEnd(operationId, exchange.signal, services, services.timeouts))
  if (outcome?.state === 'success') return outcome
  if (!outcome && undecided) throw undecided()
  const { code, message } = outcome ?? {}
  if (code && isErrorCode(code) && codes.includes(code)) throw new CodedError(code, message || undefined)
  throw new CodedError(failure, code === failure && message ? message : undefined)
}

type Owned = Pick<AppRow, 'id' | 'owner_id'>

/** A wake-up may fail: the row is queued, and the relay finds it. */
export function wakeLane({ lanes, log }: Pick<Services, 'lanes' | 'log'>, { id, owner_id: ownerId }: Owned): void {
  lanes
    .wake(id, ownerId)
    .catch(err => log.warn({ err, target: id }, 'the wake-up of a lane failed; the relay repeats it'))
}

/** As `wakeLane`. */
export function wakeDatabaseLane({ databaseLanes, log }: Services, database: Owned): void {
  wakeLane({ lanes: databaseLanes, log }, database)
}

/**
 * The row of an operation that does not expire, once it has ended; undefined when the client disconnected or after 90 s. Throws the code
 * of a target that was deleted meanwhile.
 */
export async function outcomeOf(
  id: string,
  signal: AbortSignal,
  services: Services,
): Promise<OperationRow | undefined> {
  const { backgroundMs } = services.timeouts
  return ofTarget(await waitForEnd(id, signal, services, { claimMs: backgroundMs, holdMs: backgroundMs }))
}

/** The outcome of an operation whose target is there. Throws APP_NOT_FOUND or DATABASE_NOT_FOUND when it was deleted meanwhile. */
function ofTarget(outcome: OperationRow | undefined): OperationRow | undefined {
  const code = outcome?.code
  if (code === 'APP_NOT_FOUND' || code === 'DATABASE_NOT_FOUND') throw new CodedError(code)
  return outcome
}

/**
 * The row of an operation once it has ended or was expired; undefined when the client disconnected or after 95 s. `expire` ends one that
 * is not claimed in time, unless a lane was faster.
 */
export async function waitForEnd(
  id: string,
  signal: AbortSignal,
  { db, outcomes }: Services,
  { claimMs, holdMs }: Pick<CommandTimeouts, 'claimMs' | 'holdMs'>,
  expire: (db: Db, id: string) => Promise<unknown> = expireQueuedOperation,
): Promise<OperationRow | undefined> {
  const startedAt = performance.now()
  while (!signal.aborted) {
    const elapsed = performance.now() - startedAt
    const operation = await unlessUnavailable(() => findOperation(db, id))
    if (operation && !['accepting', 'queued', 'running'].includes(operation.state)) return operation
    if (elapsed >= holdMs) return undefined
    if (operation?.state === 'queued' && elapsed >= claimMs) {
      await unlessUnavailable(() => expire(db, id))
      continue
    }
    await outcomes.next(id, (elapsed < claimMs ? Math.min(claimMs, holdMs) : holdMs) - elapsed, signal)
  }
  return undefined
}

/** The command is queued already, so the query is repeated while the database is unavailable, instead of failing. */
async function unlessUnavailable<T>(query: () => Promise<T>): Promise<T | undefined> {
  try {
    return await query()
  } catch (error) {
    if (!isUnavailable(error)) throw error
    return undefined
  }
}
