import type { Places } from '../policy/host-places.ts'

interface Waiting {
  owner: string
  go(): void
}

/** Places on a host. Who waits gets the next one in turn of the accounts: first whoever's account holds the fewest. */
export class OwnerPlaces {
  readonly #places: Places
  readonly #held = new Map<string, number>()
  #taken = 0
  #waiting: Waiting[] = []

  constructor(places: Places) {
    this.#places = places
  }

  /** Resolves to the way out; rejects with the signal's reason when it aborts first. */
  async enter(owner: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter(other => other !== waiting)
        reject(signal.reason)
      }
      const waiting = {
        owner,
        go: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiting)
      this.#next()
    })
    return () => {
      this.#taken--
      const left = this.#heldBy(owner) - 1
      if (left > 0) this.#held.set(owner, left)
      else this.#held.delete(owner)
      this.#next()
    }
  }

  #heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0
  }

  #next(): void {
    if (this.#taken >= this.#places.total) return
    let next: Waiting | undefined
    for (const waiting of this.#waiting) {
      const held = this.#heldBy(waiting.owner)
      if (held < this.#places.perOwner && (!next || held < this.#heldBy(next.owner))) next = waiting
    }
    if (!next) return
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    this.#taken++
    this.#held.set(next.owner, this.#heldBy(next.owner) + 1)
    next.go()
  }
}
