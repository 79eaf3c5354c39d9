import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import type { StepOf } from './release.ts'

/** Work on what a release brings: its folder, and the container that installs it. */
export type ReleaseAttempts = ReturnType<typeof releaseAttempts>

/**
 * Serializes the attempts at the steps that prepare a release. One whose heartbeat was lost is given up by its lane and still runs; the
 * next attempt ends it, and starts once it has ended, so that two never write alongside each other. Create it once in a process.
 */
export function releaseAttempts() {
  const lock = new KeyedLock()
  const newest = new Map<string, AbortController>()

  /** Does the work with a signal that also aborts when a later attempt has come. Rejects with the reason of an abort. */
  return async <T>(
    { appId, number }: Pick<StepOf, 'appId' | 'number'>,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const key = `${appId}/${number}`
    newest.get(key)?.abort(new Error('A later attempt at this release has begun.'))
    const giveUp = new AbortController()
    newest.set(key, giveUp)
    const either = AbortSignal.any([signal, giveUp.signal])
    try {
      return await lock.run(key, async () => {
        either.throwIfAborted()
        return work(either)
      })
    } finally {
      if (newest.get(key) === giveUp) newest.delete(key)
    }
  }
}
