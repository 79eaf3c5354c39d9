import type { Notifications } from '../../db/notifications.ts'
import { newsRereadMs } from '../../policy/patience.ts'

/** Waits for what is announced on one channel, by id: one listening connection serves everyone who waits in this process. */
export class News {
  #waiting = new Map<string, Set<() => void>>()

  constructor(notifications: Notifications, ownChannel: string) {
    notifications.on('notify', (channel, id) => {
      if (channel === ownChannel) this.#wake(id)
    })
    notifications.on('ready', () => {
      for (const id of [...this.#waiting.keys()]) this.#wake(id)
    })
  }

  /** Resolves when this id was announced, at the latest after `milliseconds` or 3 s: look at its row then. */
  news(id: string, milliseconds: number, gone: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const waiting = this.#waiting.get(id) ?? new Set()
      const wake = () => {
        clearTimeout(timer)
        gone.removeEventListener('abort', wake)
        waiting.delete(wake)
        if (waiting.size === 0) this.#waiting.delete(id)
        resolve()
      }
      const timer = setTimeout(wake, Math.max(0, Math.min(milliseconds, newsRereadMs)))
      gone.addEventListener('abort', wake)
      this.#waiting.set(id, waiting.add(wake))
    })
  }

  #wake(id: string): void {
    for (const wake of [...(this.#waiting.get(id) ?? [])]) wake()
  }
}
