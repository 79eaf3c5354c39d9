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
import type { HeldCall } from '../../../policy/patience.ts'
import { accept } from '../../pipeline/acceptance.ts'
import { assertNotLost } from '../../pipeline/access.ts'
import type { Call } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

type AppCall = Pick<Call<{ scope: null; permission: 'control' }>, 'app' | 'caller' | 'exchange'>

export interface Command {
  kind: OperationKind
  /** What is answered when it could not be carried out and gave no code that its endpoint knows. */
  failure: ErrorCode
  /** Codes of the operation that are passed on as they are. */
  codes: readonly ErrorCode[]
}

/** Writes a command down, wakes the application's lane, and waits for the outcome. Throws the code it ended with. */
export async function runCommand(
  { app, caller, exchange }: AppCall,
  services: Services,
  command: Command,
): Promise<void> {
  if (command.kind !== 'delete') assertNotLost(app)
  const write = command.kind === 'delete' ? enqueueDeletion : enqueueOperation
  const wish = { targetId: app.id, kind: command.kind, ownerId: app.owner_id, actor: caller.user.id }
  const { claimMs: claimWithinMs, holdMs: endWithinMs } = services.patience
  const { operationId } = await accept(services, async trx => {
    const { id } = await write(trx, { ...wish, claimWithinMs, endWithinMs, accepting: true })
    return { operationId: id }
  })
  exchange.headers['X-Operation-Id'] = operationId
  wakeLane(services, app)
  const end = await settle(operationId, exchange.signal, services, services.patience)
  if (end?.state === 'success') return
  const code = end?.code && isErrorCode(end.code) && command.codes.includes(end.code) ? end.code : command.failure
  throw new ApiError(code, code === end?.code && end.message ? end.message : undefined)
}

/** A wake-up may fail: the row is in the queue, and the relay finds it. */
export function wakeLane({ lanes, log }: Services, app: Pick<AppRow, 'id' | 'owner_id'>): void {
  lanes.wake(app.id, app.owner_id).catch(err => log.warn({ err, app: app.id }, 'wake-up failed, the relay heals it'))
}

/** The row of an operation that is never given up, once it has ended; undefined when the client left or 90 s passed. */
export function outcomeOf(id: string, signal: AbortSignal, services: Services): Promise<OperationRow | undefined> {
  const { backgroundMs } = services.patience
  return settle(id, signal, services, { claimMs: backgroundMs, holdMs: backgroundMs })
}

/** The row of an operation once it has ended, or after it was expired; undefined when the client left or 95 s passed. */
async function settle(
  id: string,
  signal: AbortSignal,
  { db, outcomes }: Services,
  { claimMs, holdMs }: Pick<HeldCall, 'claimMs' | 'holdMs'>,
): Promise<OperationRow | undefined> {
  const begun = performance.now()
  while (!signal.aborted) {
    const elapsed = performance.now() - begun
    // Heard before it is read: an end between the two is told again by the row.
    const operation = await patiently(() => findOperation(db, id))
    if (operation && !['accepting', 'queued', 'running'].includes(operation.state)) return operation
    if (elapsed >= holdMs) return undefined
    if (operation?.state === 'queued' && elapsed >= claimMs) {
      if (await patiently(() => expireQueuedOperation(db, id))) return { ...operation, state: 'expired' }
      continue
    }
    await outcomes.news(id, (elapsed < claimMs ? claimMs : holdMs) - elapsed, signal)
  }
  return undefined
}

/** The command is already in the queue, so a database that is away for a moment is asked again, not reported. */
async function patiently<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (!isUnavailable(error)) throw error
    return undefined
  }
}
