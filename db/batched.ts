import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Db, isUnavailable } from './database.ts'

interface PendingCall<In, Out> {
  input: In
  /** Gives the call up; cleared when it is taken. */
  timer?: NodeJS.Timeout
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
  /** The number of the last batch that had a call of each account, and of all. */
  served: Map<string, number>
  batches: number
}

/** A call waited for its batch until its time was over: it did not run, and will not. */
export class NotBegun extends Error {
  override name = 'NotBegun'

  constructor() {
    super('the call waited too long for its batch')
  }
}

export interface BatchOptions<In> {
  /** Calls in one batch. */
  maxSize?: number
  /** Batches of one key in progress. */
  maxConcurrent?: number
  /** It only reads: after a lost connection it runs once more. */
  isRead?: boolean
  /** Whether this error rejects the whole batch, instead of running each of its calls alone. */
  rejectsAll?: (error: unknown) => boolean
  /** Accounts whose calls alternate in batches: one that makes many delays only itself. */
  accountOf?: (input: In) => string
  /** Time of `performance.now()` until which a call waits for its batch; then it rejects with NotBegun. */
  waitsUntil?: (input: In) => number
  /** Resolves when the next batch, which has this call first, may run, to a function that is called at its end. */
  slotFor?: (db: Db, input: In) => Promise<() => void>
}

/**
 * Batches calls with the same key: calls made while a batch is running join the next one. So each call's statement starts after the
 * call, waits for the batch that runs and for calls before it that are more than one holds, and shares its commit. When the database
 * refuses a batch, each of its calls runs alone, so that an error reaches only the call that caused it.
 */
export function batched<In, Out>(
  work: BatchWork<In, Out>,
  {
    maxSize = 256,
    maxConcurrent = 1,
    isRead = false,
    rejectsAll = () => false,
    accountOf,
    waitsUntil,
    slotFor,
  }: BatchOptions<In> = {},
): BatchedCall<In, Out> {
  const pools = new WeakMap<Db, Map<string, Queue<In, Out>>>()

  async function drain(db: Db, key: string, queue: Queue<In, Out>): Promise<void> {
    queue.running++
    // Calls that arrive in the same turn of the event loop, from other connections, join the first batch.
    await nextTurn()
    while (queue.pending.length > 0) {
      const leave = await slotFor?.(db, queue.pending[0]!.input)
      const batch = take(queue, maxSize, accountOf)
      for (const { timer } of batch) clearTimeout(timer)
      if (batch.length > 0) await runBatch(db, key, batch)
      leave?.()
    }
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
      else for (const call of batch) await (isLate(call) ? call.reject(new NotBegun()) : runBatch(db, key, [call]))
    }
  }

  const isLate = ({ input }: PendingCall<In, Out>): boolean =>
    waitsUntil !== undefined && waitsUntil(input) <= performance.now()

  return (db, key, input) =>
    new Promise((resolve, reject) => {
      const waitMs = waitsUntil && waitsUntil(input) - performance.now()
      if (waitMs !== undefined && waitMs <= 0) return reject(new NotBegun())
      const queues = pools.get(db) ?? new Map<string, Queue<In, Out>>()
      pools.set(db, queues)
      const queue: Queue<In, Out> = queues.get(key) ?? { pending: [], running: 0, served: new Map(), batches: 0 }
      queues.set(key, queue)
      const call: PendingCall<In, Out> = { input, resolve, reject }
      queue.pending.push(call)
      if (waitMs !== undefined) call.timer = setTimeout(() => giveUp(queue, call), waitMs)
      if (queue.running < maxConcurrent) void drain(db, key, queue)
    })
}

function giveUp<In, Out>(queue: Queue<In, Out>, call: PendingCall<In, Out>): void {
  queue.pending.splice(queue.pending.indexOf(call), 1)
  call.reject(new NotBegun())
}

/** Takes the next calls: the first of each account, longest unserved first, then the second of each, and so on. */
function take<In, Out>(
  queue: Queue<In, Out>,
  maxSize: number,
  accountOf?: (input: In) => string,
): PendingCall<In, Out>[] {
  const { pending, served } = queue
  if (!accountOf) return pending.splice(0, maxSize)
  const batch = ++queue.batches
  const turns = new Map<string, number>()
  const calls = pending.map((call, position) => {
    const account = accountOf(call.input)
    const turn = (turns.get(account) ?? 0) + 1
    turns.set(account, turn)
    return { call, position, account, turn, last: served.get(account) ?? 0 }
  })
  const next = calls.sort((a, b) => a.turn - b.turn || a.last - b.last || a.position - b.position).slice(0, maxSize)
  for (const { account } of next) served.set(account, batch)
  // What was called first comes first, also in its batch.
  const taken = new Set(next.map(({ position }) => position))
  const all = pending.splice(0)
  for (const [position, call] of all.entries()) if (!taken.has(position)) pending.push(call)
  return all.filter((_, position) => taken.has(position))
}
