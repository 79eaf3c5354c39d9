import type { StepOf } from './release.ts'

/** Work on what a release brings: its folder, and the container that installs it. */
export type ReleaseAttempts = ReturnType<typeof releaseAttempts>

/**
 * Serializes the attempts at the steps that prepare a release. One whose heartbeat was lost is given up by its lane and still runs; the
 * next attempt ends it, and begins once it has ended, so that two never write alongside each other. Create it once in a process.
 */
export function releaseAttempts() {
  const underWay = new Map<string, { giveUp: AbortController; ended: Promise<void> }>()

  /** Does the work with a signal that also aborts when a later attempt has come. Rejects with the reason of an abort. */
  return async <T>(
    { appId, number }: Pick<StepOf, 'appId' | 'number'>,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const key = `${appId}/${number}`
    const before = underWay.get(key)
    before?.giveUp.abort(new Error('A later attempt at this release has begun.'))
    const giveUp = new AbortController()
    const either = AbortSignal.any([signal, giveUp.signal])
    const done = Promise.resolve(before?.ended).then(() => {
      either.throwIfAborted()
      return work(either)
    })
    const ended = done.then(
      () => {},
      () => {},
    )
    const mine = { giveUp, ended }
    underWay.set(key, mine)
    try {
      return await done
    } finally {
      if (underWay.get(key) === mine) underWay.delete(key)
    }
  }
}
