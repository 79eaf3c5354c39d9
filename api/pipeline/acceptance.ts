import { setTimeout as sleep } from 'node:timers/promises'
import { confirmOperation, isOperationStored, undoOperation } from '../../db/acceptance.ts'
import { type Db, isUnavailable, transactionWithRetries } from '../../db/database.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import { acceptance } from '../../policy/acceptance.ts'
import { ApiError } from '../../policy/errors.ts'
import type { CoreServices } from './core-services.ts'

/** What a transaction stored; without an operation there is nothing to confirm. */
interface Stored {
  operationId?: string
}

interface Terms {
  /** The last moment for the answer to the commit, by `performance.now()`; each query has a limit of its own. */
  commitBy?: number
  /** The last moment for the answer itself. */
  answerBy?: number
  confirm?(db: Db, operationId: string): Promise<boolean>
}

/** It was not in time, so nothing of it is committed any more, or it is undone. */
class Late extends Error {
  override name = 'Late'
}

/**
 * Stores an operation (`accepting`) in one transaction, and lets it begin by a second statement once the commit was answered. When
 * that answer is lost or late, Postgres is asked what became of it. Resolves when it is stored, and will be begun; rejects when it
 * is not, and never will be (docs/decisions/commits-in-doubt.md).
 */
export async function accept<T extends Stored>(
  services: Pick<CoreServices, 'db' | 'log'>,
  work: (trx: Db) => Promise<T>,
  terms: Terms = {},
): Promise<T> {
  const stored = await commit(services, work, terms)
  const { operationId } = stored
  if (operationId === undefined) return stored
  const answerBy = terms.answerBy ?? performance.now() + acceptance.confirmMs
  const confirming = () => (terms.confirm ?? confirm)(services.db, operationId)
  const confirmed = await asked(confirming, answerBy)
  // The process was stopped for so long that it was given up, or the application went away.
  if (confirmed === false) throw new ApiError('DATABASE_UNAVAILABLE')
  // It is on disk, so the answer is yes; that it may begin is said until Postgres has heard it.
  if (confirmed === undefined)
    void asked(confirming, Number.POSITIVE_INFINITY).then(
      begins => {
        if (!begins) services.log.error({ operation: operationId }, 'answered, and undone before it could begin')
      },
      failure(services, operationId),
    )
  return stored
}

/** Resolves to what is known to be committed. */
async function commit<T extends Stored>(
  services: Pick<CoreServices, 'db' | 'log'>,
  work: (trx: Db) => Promise<T>,
  { commitBy = Number.POSITIVE_INFINITY, answerBy }: Terms,
): Promise<T> {
  const { db, log } = services
  /** What the transaction holds whose commit is under way. */
  let committing: T | undefined
  let over = false
  try {
    const committed = transactionWithRetries(db, async trx => {
      committing = undefined
      const stored = await work(trx)
      if (over) throw new Late('not in time')
      committing = stored
      return stored
    })
    return await within(committed, commitBy)
  } catch (error) {
    over = true
    const stored = committing
    // Before the commit, or refused by Postgres in so many words: all of it is rolled back.
    if (stored?.operationId === undefined || !(error instanceof Late || isUnavailable(error))) throw error
    const { operationId } = stored
    log.warn({ err: error, operationId }, 'the answer to a commit is missing')
    const seen = async () => (await isOperationStored(db, operationId)) || undefined
    if (await asked(seen, Math.min(answerBy ?? Number.POSITIVE_INFINITY, performance.now() + acceptance.lookMs)))
      return stored
    void undoing(db, operationId).catch(failure(services, operationId))
    throw error
  }
}

/** Asks until there is an answer; undefined when there was none in time. Rejects when Postgres refuses the question. */
async function asked(question: () => Promise<boolean | undefined>, by: number): Promise<boolean | undefined> {
  for (;;) {
    const answer = await within(question(), Math.min(by, performance.now() + acceptance.tryMs)).catch(error => {
      if (!(error instanceof Late) && !isUnavailable(error)) throw error
      return undefined
    })
    if (answer !== undefined || performance.now() + acceptance.againMs > by) return answer
    await sleep(acceptance.againMs, undefined, { ref: false })
  }
}

/** What arrives after it was refused is taken back soon; what arrives later, by the relay. */
async function undoing(db: Db, operationId: string): Promise<void> {
  for (const milliseconds of acceptance.undoAfterMs) {
    await sleep(milliseconds, undefined, { ref: false })
    if (await undoOperation(db, operationId).catch(() => false)) return
  }
}

const failure =
  ({ log }: Pick<CoreServices, 'log'>, operationId: string) =>
  (err: unknown) =>
    log.error({ err, operationId }, 'what became of an operation could not be said to Postgres')

/** Rejects with `Late` when it did not end by that moment of `performance.now()`. */
export function within<T>(work: Promise<T>, by: number): Promise<T> {
  return withTimeout(work, by - performance.now(), () => new Late('not in time'))
}
