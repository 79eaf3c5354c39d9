import { ignoreError } from './ignore-error.ts'
/** Resolves to the outcome of the work; rejects with the error of `late` after `ms` milliseconds. The work then continues, and its outcome is ignored. */
export function withTimeout<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  if (ms === Number.POSITIVE_INFINITY) return work
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), Math.max(0, ms))
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** Resolves once the work has ended, either way, and after `ms` milliseconds at the latest. The work then continues. */
export async function endedWithin(work: Promise<unknown>, ms: number): Promise<void> {
  const ended = work.catch(ignoreError('the caller asks for the outcome later'))
  await withTimeout(ended, ms, () => new Error('late')).catch(ignoreError('the caller goes on'))
}

/** Resolves to the outcome of the work; rejects with the signal's reason once it aborts. The work then continues, and its outcome is ignored. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) {
      work.catch(ignoreError('the caller hears of the signal'))
      return abort()
    }
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/**
 * A signal that aborts with one of these signals, or with a TimeoutError after `ms` milliseconds. Replaces `AbortSignal.any` with
 * `AbortSignal.timeout`: the joined signal references the timeout weakly, and never aborts once that is garbage-collected.
 */
export function deadlineSignal(ms: number, ...signals: AbortSignal[]): AbortSignal {
  const deadline = new AbortController()
  const end = () => deadline.abort(new DOMException(`Not done within ${ms} ms.`, 'TimeoutError'))
  const timer = setTimeout(end, ms).unref()
  const joined = AbortSignal.any([...signals, deadline.signal])
  joined.addEventListener('abort', () => clearTimeout(timer), { once: true })
  return joined
}
