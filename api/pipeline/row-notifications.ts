import type { Notifications } from '../../db/notifications.ts'
import { notificationRereadMs } from '../../policy/timeouts.ts'

/** Waits for notifications of one channel, by id: one listening connection serves all waiting requests of this process. */
export class RowNotifications {
  #waiting = new Map<string, Set<() => void>>()

  constructor(notifications: Notifications, ownChannel: string) {
    notifications.on('notify', (channel, id) => {
      if (channel === ownChannel) this.#wake(id)
    })
    notifications.on('ready', () => {
      for (const id of [...this.#waiting.keys()]) this.#wake(id)
    })
  }

  /** Resolves when this id was notified, after `milliseconds` or after 3 s, whichever comes first: read its row then. */
  next(id: string, milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const waiting = this.#waiting.get(id) ?? new Set()
      const wake = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', wake)
        waiting.delete(wake)
        if (waiting.size === 0) this.#waiting.delete(id)
        resolve()
      }
      const timer = setTimeout(wake, Math.max(0, Math.min(milliseconds, notificationRereadMs)))
      signal.addEventListener('abort', wake)
      this.#waiting.set(id, waiting.add(wake))
    })
  }

  #wake(id: string): void {
    for (const wake of [...(this.#waiting.get(id) ?? [])]) wake()
  }
}
