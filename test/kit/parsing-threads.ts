import type { Worker } from 'node:worker_threads'
import type { ExecutionContext } from 'ava'

/** Counts the threads that parse bodies in this process from now on: how many started, and the maximum that ran concurrently. */
export function parsingThreads(t: ExecutionContext): () => { started: number; most: number } {
  const seen = { started: 0, most: 0 }
  let now = 0
  const count = (worker: Worker) => {
    seen.started++
    seen.most = Math.max(seen.most, ++now)
    // Its work is done with its answer; the next one may begin before it has ended.
    worker.once('message', () => now--)
  }
  process.on('worker', count)
  t.teardown(() => process.off('worker', count))
  return () => seen
}
