import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import type { StepOf } from './release.ts'

/** Runs work on a release's own folder and on its build container. */
export type ReleaseAttempts = ReturnType<typeof releaseAttempts>

/**
 * Serializes the attempts at the steps that prepare a release. The lane gives up an attempt whose heartbeat was lost, but it still runs: the
 * next attempt aborts it, and starts once it has ended, so that two never write concurrently. Create it once per process.
 */
export function releaseAttempts() {
  const lock = new KeyedLock()
  const newest = new Map<string, AbortController>()

  /** Runs the work with a signal that also aborts when a later attempt arrives. Rejects with the reason of an abort. */
  return async <T>(
    { appId, number }: Pick<StepOf, 'appId' | 'number'>,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const key = `${appId}/${number}`
    newest.get(key)?.abort(new Error('A later attempt at this release has started.'))
    const attempt = new AbortController()
    newest.set(key, attempt)
    const combined = AbortSignal.any([signal, attempt.signal])
    try {
      return await lock.run(key, async () => {
        combined.throwIfAborted()
        return work(combined)
      })
    } finally {
      if (newest.get(key) === attempt) newest.delete(key)
    }
  }
}
