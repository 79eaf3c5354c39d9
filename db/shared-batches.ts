import { batched } from './batched.ts'
import type { Db } from './database.ts'
import { sqlState } from './unavailable.ts'

/** The work of several calls in one statement, which waits at most `lockMs` for a locked row; 0 = as long as a statement may take. */
export type SharedWork<In, Out> = (db: Db, inputs: readonly In[], lockMs: number) => Promise<readonly Out[]>

export interface SharedBatchOptions<In> {
  /** Whose rows a call locks. */
  subjectOf(input: In): string
  /** Only calls of one group share a statement; default: all. */
  groupOf?(input: In): string
  maxSize?: number
}

/** Waits of a statement for rows that something outside has locked, in ms, before its calls run by subject. */
const sharedLockMs = 250
/** Time that calls of a subject then run apart from others, in ms. */
const apartMs = 10_000

/**
 * Batches calls of all subjects, as `batched` does. While the rows of a subject are locked by something else, such as the transaction of
 * an operator, its calls wait by themselves: others are delayed once, by 250 ms, and not refused.
 */
export function batchedOverSubjects<In, Out>(
  work: SharedWork<In, Out>,
  { subjectOf, groupOf = () => 'all', maxSize }: SharedBatchOptions<In>,
): (db: Db, input: In) => Promise<Out> {
  const options = { maxSize, maxConcurrent: 2, rejectsAll: isLocked }
  const together = batched<In, Out>((db, _, inputs) => work(db, inputs, sharedLockMs), options)
  const bySubject = batched<In, Out>((db, _, inputs) => work(db, inputs, 0), { maxSize })
  /** Subjects that run apart, and since when: the last of their calls that took long ends it. */
  const apart = new Map<string, number>()

  async function runApart(db: Db, input: In): Promise<Out> {
    const subject = subjectOf(input)
    const startedAt = performance.now()
    apart.set(subject, startedAt)
    try {
      return await bySubject(db, `${subject} ${groupOf(input)}`, input)
    } finally {
      const endedAt = performance.now()
      if (endedAt - startedAt < sharedLockMs) apart.delete(subject)
      else keepApart(subject, endedAt)
    }
  }

  function keepApart(subject: string, since: number): void {
    apart.set(subject, since)
    setTimeout(() => void (apart.get(subject) === since && apart.delete(subject)), apartMs).unref()
  }

  return async (db, input) => {
    if (apart.has(subjectOf(input))) return runApart(db, input)
    return together(db, groupOf(input), input).catch(error =>
      isLocked(error) ? runApart(db, input) : Promise.reject(error),
    )
  }
}

/** lock_not_available: nothing was changed. */
const isLocked = (error: unknown): boolean => sqlState(error) === '55P03'
