import { setTimeout as sleep } from 'node:timers/promises'
import { confirmOperation, isOperationStored, undoOperation } from '../../db/acceptance.ts'
import { type Db, isUnavailable, isWithoutEffect, transactionWithRetries, withRetries } from '../../db/database.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import { acceptance } from '../../policy/acceptance.ts'
import { CodedError } from '../../policy/errors.ts'
import type { CoreServices } from './core-services.ts'

/** What a transaction stored. Without an operation there is nothing to confirm. */
interface Stored {
  operationId?: string
}

/** The deadline passed: what is committed after it is undone. */
class Late extends Error {
  override name = 'Late'
}

/**
 * Stores an operation (`accepting`) in one transaction, and lets it start with a second statement once the commit was answered. When
 * that answer is lost or late, Postgres is queried for the outcome. Resolves when the operation is stored and will start; rejects when
 * it is not stored and never will be (docs/decisions/commits-in-doubt.md).
 */
export async function accept<T extends Stored>(
  services: Pick<CoreServices, 'db' | 'log'>,
  work: (trx: Db) => Promise<T>,
): Promise<T> {
  const stored = await commit(services, work)
  const confirm = (operationId: string) => confirmOperation(services.db, operationId)
  return confirmed(services, stored, confirm, performance.now() + acceptance.confirmMs)
}

/** What one statement stores. */
interface StoredAtOnce<T> {
  /** The operation that it stores. */
  operationId: string
  store(): Promise<T>
  /** Finds it when the answer is missing; undefined when it cannot be seen. */
  find(): Promise<T | undefined>
  /** Undefined when that is not known yet. */
  confirm(operationId: string): Promise<boolean | undefined>
}

/** By `performance.now()`; each query has its own timeout. */
interface Deadlines {
  /** For the answer to the commit. */
  commitBy: number
  /** For the answer itself. */
  answerBy: number
}

/** As `accept`, for an operation that one statement stores. */
export async function acceptAtOnce<T extends Stored>(
  services: Pick<CoreServices, 'db' | 'log'>,
  { operationId, store, find, confirm }: StoredAtOnce<T>,
  { commitBy, answerBy }: Deadlines,
): Promise<T> {
  const stored = await within(withRetries(store), commitBy).catch(error => {
    if (isWithoutEffect(error)) throw error
    return outcomeOf(services, { operationId, find, error, answerBy })
  })
  return confirmed(services, stored, confirm, answerBy)
}

/** Lets what is stored start. */
async function confirmed<T extends Stored>(
  services: Pick<CoreServices, 'db' | 'log'>,
  stored: T,
  confirm: (operationId: string) => Promise<boolean | undefined>,
  answerBy: number,
): Promise<T> {
  const { operationId } = stored
  if (operationId === undefined) return stored
  const confirming = () => confirm(operationId)
  const isConfirmed = await poll(confirming, answerBy)
  // The process was suspended for so long that the operation was undone, or the application was deleted.
  if (isConfirmed === false) throw new CodedError('DATABASE_UNAVAILABLE')
  // It is on disk, so the answer is success; the confirmation is repeated until Postgres has received it.
  if (isConfirmed === undefined)
    void poll(confirming, Number.POSITIVE_INFINITY).then(
      isConfirmed => {
        if (!isConfirmed)
          services.log.error({ operation: operationId }, 'undone before it could start, after its success was answered')
      },
      failure(services, operationId),
    )
  return stored
}

/** Resolves to what is certainly committed. */
async function commit<T extends Stored>(
  services: Pick<CoreServices, 'db' | 'log'>,
  work: (trx: Db) => Promise<T>,
): Promise<T> {
  const { db } = services
  /** What the transaction stored whose commit is in progress. */
  let committing: T | undefined
  try {
    return await transactionWithRetries(db, async trx => {
      committing = undefined
      const stored = await work(trx)
      committing = stored
      return stored
    })
  } catch (error) {
    const stored = committing
    // Before the commit, or explicitly refused by Postgres: everything is rolled back.
    if (stored?.operationId === undefined || !isUnavailable(error)) throw error
    const { operationId } = stored
    const find = async () => ((await isOperationStored(db, operationId)) ? stored : undefined)
    return outcomeOf(services, { operationId, find, error, answerBy: Number.POSITIVE_INFINITY })
  }
}

/** A commit whose answer is missing. */
interface Doubt<T> extends Pick<StoredAtOnce<T>, 'operationId' | 'find'>, Pick<Deadlines, 'answerBy'> {
  error: unknown
}

/** Resolves to what is stored, although the answer to its commit is missing. Rejects with `error`, and undoes what arrives later. */
async function outcomeOf<T>(
  services: Pick<CoreServices, 'db' | 'log'>,
  { operationId, find, error, answerBy }: Doubt<T>,
): Promise<T> {
  services.log.warn({ err: error, operationId }, 'the answer to a commit is missing')
  const stored = await poll(find, Math.min(answerBy, performance.now() + acceptance.lookMs))
  if (stored) return stored
  void undoSoon(services.db, operationId).catch(failure(services, operationId))
  throw error
}

/** Repeats a query until it has an answer; undefined when there was none in time. Rejects when Postgres refuses the query. */
async function poll<T>(query: () => Promise<T | undefined>, by: number): Promise<T | undefined> {
  for (;;) {
    const answer = await within(query(), Math.min(by, performance.now() + acceptance.tryMs)).catch(error => {
      if (!(error instanceof Late) && !isUnavailable(error)) throw error
      return undefined
    })
    if (answer !== undefined || performance.now() + acceptance.againMs > by) return answer
    await sleep(acceptance.againMs, undefined, { ref: false })
  }
}

/** A commit that arrives after its refusal is undone within seconds here; one that arrives later, by the relay. */
async function undoSoon(db: Db, operationId: string): Promise<void> {
  for (const milliseconds of acceptance.undoAfterMs) {
    await sleep(milliseconds, undefined, { ref: false })
    if (await undoOperation(db, operationId).catch(() => false)) return
  }
}

const failure =
  ({ log }: Pick<CoreServices, 'log'>, operationId: string) =>
  (err: unknown) =>
    log.error({ err, operationId }, 'an operation could not be confirmed or undone in Postgres')

/** Rejects with `Late` when `work` has not ended by that time of `performance.now()`. */
export function within<T>(work: Promise<T>, by: number): Promise<T> {
  return withTimeout(work, by - performance.now(), () => new Late('not in time'))
}
