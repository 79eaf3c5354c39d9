import type { Readable } from 'node:stream'
import { storeSeconds } from '../../policy/body-budgets.ts'

/** The object store has not answered in time. */
export class StoreTooSlow extends Error {
  override name = 'StoreTooSlow'
}

/** Cancels the storing of a body. */
export type Cancelling = Pick<AbortController, 'signal'> & Partial<Pick<AbortController, 'abort'>>

/**
 * The result of `storing`. Rejects with StoreTooSlow when the store takes too long after the body has arrived completely, or continues
 * after its upload was cancelled: whatever the store waits for, the caller's slot and memory are freed then.
 */
export function withinStoreTime<T>(
  storing: Promise<T>,
  body: Readable,
  cancel: Cancelling,
  { afterBody, afterCancel }: { afterBody: number; afterCancel: number } = storeSeconds,
): Promise<T> {
  const timers: NodeJS.Timeout[] = []
  return new Promise<T>((resolve, reject) => {
    const giveUp = () => reject(new StoreTooSlow('The object store did not answer in time.'))
    const late = () => {
      giveUp()
      cancel.abort?.()
    }
    const arrived = () => timers.push(setTimeout(late, afterBody * 1000))
    const cancelled = () => timers.push(setTimeout(giveUp, afterCancel * 1000))
    if (body.readableEnded) arrived()
    else body.once('end', arrived)
    cancel.signal.addEventListener('abort', cancelled, { once: true })
    if (cancel.signal.aborted) cancelled()
    const clear = () => {
      body.off('end', arrived)
      cancel.signal.removeEventListener('abort', cancelled)
      timers.forEach(clearTimeout)
    }
    storing.then(resolve, reject).finally(clear)
  }).finally(() => timers.forEach(clearTimeout))
}
