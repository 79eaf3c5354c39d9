import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Db, isUnavailable } from './database.ts'

interface PendingCall<In, Out> {
  input: In
  resolve(result: Out): void
  reject(error: unknown): void
}

/** Does the work of several calls in one statement or transaction; returns one result for each input, in their order. */
export type BatchWork<In, Out> = (db: Db, key: string, inputs: readonly In[]) => Promise<readonly Out[]>

/** One call; it shares a statement with other calls that have the same key. */
export type BatchedCall<In, Out> = (db: Db, key: string, input: In) => Promise<Out>

interface Queue<In, Out> {
  pending: PendingCall<In, Out>[]
  /** Loops that take batches from this queue. */
  running: number
}

export interface BatchOptions {
  /** Calls in one batch. */
  maxSize?: number
  /** Batches of one key in progress. */
  maxConcurrent?: number
  /** It only reads: after a lost connection it runs once more. */
  isRead?: boolean
  /** Whether this error rejects the whole batch, instead of running each of its calls alone. */
  rejectsAll?: (error: unknown) => boolean
}

/**
 * Batches calls with the same key: calls made while a batch is running join the next one. So each call's statement starts after the
 * call, waits for at most one earlier batch, and shares its commit. When the database refuses a batch, each of its calls runs alone,
 * so that an error reaches only the call that caused it.
 */
export function batched<In, Out>(
  work: BatchWork<In, Out>,
  { maxSize = 256, maxConcurrent = 1, isRead = false, rejectsAll = () => false }: BatchOptions = {},
): BatchedCall<In, Out> {
  const pools = new WeakMap<Db, Map<string, Queue<In, Out>>>()

  async function drain(db: Db, key: string, queue: Queue<In, Out>): Promise<void> {
    queue.running++
    // Calls that arrive in the same turn of the event loop, from other connections, join the first batch.
    await nextTurn()
    while (queue.pending.length > 0) await runBatch(db, key, queue.pending.splice(0, maxSize))
    queue.running--
    if (queue.running === 0) pools.get(db)?.delete(key)
  }

  function result(db: Db, key: string, inputs: readonly In[]): Promise<readonly Out[]> {
    const first = work(db, key, inputs)
    return isRead ? first.catch(error => (isUnavailable(error) ? work(db, key, inputs) : Promise.reject(error))) : first
  }

  async function runBatch(db: Db, key: string, batch: PendingCall<In, Out>[]): Promise<void> {
    try {
      const inputs = batch.map(call => call.input)
      const results = await result(db, key, inputs)
      batch.forEach(({ resolve }, n) => void resolve(results[n]!))
    } catch (error) {
      // A lost connection may hide a commit: the work must not be repeated.
      if (batch.length === 1 || isUnavailable(error) || rejectsAll(error))
        batch.forEach(({ reject }) => void reject(error))
      else for (const call of batch) await runBatch(db, key, [call])
    }
  }

  return (db, key, input) =>
    new Promise((resolve, reject) => {
      const queues = pools.get(db) ?? new Map<string, Queue<In, Out>>()
      pools.set(db, queues)
      const queue = queues.get(key) ?? { pending: [], running: 0 }
      queues.set(key, queue)
      queue.pending.push({ input, resolve, reject })
      if (queue.running < maxConcurrent) void drain(db, key, queue)
    })
}
