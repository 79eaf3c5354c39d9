import type { AppRow } from '../../../db/apps/apps.ts'
import { isUnavailable } from '../../../db/database.ts'
import {
  enqueueDeletion,
  enqueueOperation,
  expireQueuedOperation,
  findOperation,
  type OperationKind,
  type OperationRow,
} from '../../../db/operations/operations.ts'
import { ApiError, type ErrorCode, isErrorCode } from '../../../policy/errors.ts'
import type { CommandTimeouts } from '../../../policy/timeouts.ts'
import { accept } from '../../pipeline/acceptance.ts'
import { assertNotLost } from '../../pipeline/access.ts'
import type { Call } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

type AppCall = Pick<Call<{ scope: null; permission: 'control' }>, 'app' | 'caller' | 'exchange'>

export interface Command {
  kind: OperationKind
  /** The answer when the operation failed with none of `codes`. */
  failure: ErrorCode
  /** Codes of the operation that are answered unchanged. */
  codes: readonly ErrorCode[]
}

/** Stores a command, wakes the application's lane, and waits for the outcome. Throws the code of a failure. */
export async function runCommand(
  { app, caller, exchange }: AppCall,
  services: Services,
  command: Command,
): Promise<void> {
  if (command.kind !== 'delete') assertNotLost(app)
  const enqueue = command.kind === 'delete' ? enqueueDeletion : enqueueOperation
  const operation = { targetId: app.id, kind: command.kind, ownerId: app.owner_id, actor: caller.user.id }
  const { claimMs: claimWithinMs, holdMs: endWithinMs } = services.patience
  const { operationId } = await accept(services, async trx => {
    const { id } = await enqueue(trx, { ...operation, claimWithinMs, endWithinMs, accepting: true })
    return { operationId: id }
  })
  exchange.headers['X-Operation-Id'] = operationId
  wakeLane(services, app)
  const outcome = await waitForEnd(operationId, exchange.signal, services, services.patience)
  if (outcome?.state === 'success') return
  const { code, message } = outcome ?? {}
  if (code && isErrorCode(code) && command.codes.includes(code)) throw new ApiError(code, message || undefined)
  throw new ApiError(command.failure, code === command.failure && message ? message : undefined)
}

/** A wake-up may fail: the row is queued, and the relay finds it. */
export function wakeLane({ lanes, log }: Services, app: Pick<AppRow, 'id' | 'owner_id'>): void {
  lanes
    .wake(app.id, app.owner_id)
    .catch(err => log.warn({ err, app: app.id }, 'the wake-up of a lane failed; the relay repeats it'))
}

/** The row of an operation that does not expire, once it has ended; undefined when the client disconnected or after 90 s. */
export function outcomeOf(id: string, signal: AbortSignal, services: Services): Promise<OperationRow | undefined> {
  const { backgroundMs } = services.patience
  return waitForEnd(id, signal, services, { claimMs: backgroundMs, holdMs: backgroundMs })
}

/** The row of an operation once it has ended or was expired; undefined when the client disconnected or after 95 s. */
async function waitForEnd(
  id: string,
  signal: AbortSignal,
  { db, outcomes }: Services,
  { claimMs, holdMs }: Pick<CommandTimeouts, 'claimMs' | 'holdMs'>,
): Promise<OperationRow | undefined> {
  const startedAt = performance.now()
  while (!signal.aborted) {
    const elapsed = performance.now() - startedAt
    const operation = await unlessUnavailable(() => findOperation(db, id))
    if (operation && !['accepting', 'queued', 'running'].includes(operation.state)) return operation
    if (elapsed >= holdMs) return undefined
    if (operation?.state === 'queued' && elapsed >= claimMs) {
      if (await unlessUnavailable(() => expireQueuedOperation(db, id))) return { ...operation, state: 'expired' }
      continue
    }
    await outcomes.next(id, (elapsed < claimMs ? claimMs : holdMs) - elapsed, signal)
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
