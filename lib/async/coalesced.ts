import { ignoreError } from './ignore-error.ts'

/**
 * Runs `work` one at a time per key; concurrent callers share the next run, which starts after all of them have called. A run that
 * fails delays no later one.
 */
export function coalesced<T>(work: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>()
  const next = new Map<string, Promise<T>>()
  return key => {
    const waiting = next.get(key)
    if (waiting) return waiting
    const turn = Promise.resolve(running.get(key))
      .catch(ignoreError('its own callers hear of it'))
      .then(() => {
        next.delete(key)
        const now = work(key).finally(() => {
          if (running.get(key) === now) running.delete(key)
        })
        running.set(key, now)
        return now
      })
    next.set(key, turn)
    return turn
  }
}
