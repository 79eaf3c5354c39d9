import { type BatchOptions, batched } from './batched.ts'
import type { Db } from './database.ts'
import { sqlState } from './unavailable.ts'

/** The result of a call that a shared statement left out, because something else holds the rows of its subject. */
export const held = Symbol('held')

/**
 * The work of several calls in one statement, which waits at most `lockMs` for a locked row; 0 = as long as calls of one subject may wait.
 * It may leave out calls as `held`, but not all of them.
 */
export type SharedWork<In, Out> = (
  db: Db,
  inputs: readonly In[],
  lockMs: number,
) => Promise<readonly (Out | typeof held)[]>

export interface SharedBatchOptions<In> extends Pick<BatchOptions<In>, 'maxSize' | 'accountOf' | 'waitsUntil'> {
  /** Whose rows a call locks. */
  subjectOf(input: In): string
  /** Only calls of one group share a statement; default: all. */
  groupOf?(input: In): string
  /** Longest wait of a statement for rows that something outside has locked, in ms, before its calls run by subject; default: 250. */
  lockMs?: number
  /** What a batch of one subject waits for, while something else locks its rows; default: nothing. */
  slotFor?: BatchOptions<In>['slotFor']
}

/** Time that calls of a subject then run apart from others, in ms. */
const apartMs = 10_000

/**
 * Batches calls of all subjects, as `batched` does. While the rows of a subject are locked by something else, such as the transaction of
 * an operator, its calls wait by themselves: others are delayed once, by `lockMs`, and not refused.
 */
export function batchedOverSubjects<In, Out>(
  work: SharedWork<In, Out>,
  { subjectOf, groupOf = () => 'all', lockMs = 250, slotFor, ...shared }: SharedBatchOptions<In>,
): (db: Db, input: In) => Promise<Out> {
  const options = { ...shared, maxConcurrent: 2, rejectsAll: isLocked }
  const together = batched<In, Out | typeof held>((db, _, inputs) => work(db, inputs, lockMs), options)
  const bySubject = batched<In, Out>((db, _, inputs) => runApart(db, inputs), { ...shared, slotFor })
  /** Subjects that run apart, and since when: the last of their calls that took long ends it. */
  const apart = new Map<string, number>()

  /** Only its own statement says whether a subject is locked, and not how long it waited for a slot. */
  async function runApart(db: Db, inputs: readonly In[]): Promise<readonly Out[]> {
    const subject = subjectOf(inputs[0]!)
    const startedAt = performance.now()
    try {
      // All of one subject, so none of them is left out.
      return (await work(db, inputs, 0)) as readonly Out[]
    } finally {
      const endedAt = performance.now()
      if (endedAt - startedAt < lockMs) apart.delete(subject)
      else keepApart(subject, endedAt)
    }
  }

  function keepApart(subject: string, since: number): void {
    apart.set(subject, since)
    setTimeout(() => void (apart.get(subject) === since && apart.delete(subject)), apartMs).unref()
  }

  return async (db, input) => {
    const subject = subjectOf(input)
    const alone = () => bySubject(db, `${subject} ${groupOf(input)}`, input)
    if (apart.has(subject)) return alone()
    const result = await together(db, groupOf(input), input).catch((error): typeof held => {
      if (!isLocked(error)) throw error
      return held
    })
    if (result !== held) return result
    if (!apart.has(subject)) keepApart(subject, performance.now())
    return alone()
  }
}

/** lock_not_available: nothing was changed. */
const isLocked = (error: unknown): boolean => sqlState(error) === '55P03'
