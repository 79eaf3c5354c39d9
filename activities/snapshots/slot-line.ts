import { ignoreError } from '../../lib/async/ignore-error.ts'
import { snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'

/** An operation that waits for a snapshot slot. */
export interface Waiter {
  operationId: string
  ownerId: string
  /**
   * Reserves what its work needs alongside the work that has begun, and resolves to what gives that back; null = there is no room now. Omitted:
   * it needs nothing.
   */
  reserve?: () => Promise<(() => void) | null>
}

/** Resolves to the operations that have a slot, with their accounts, once those that wait were given what is free, in their order. */
type Assign = (waiting: readonly string[]) => Promise<ReadonlyMap<string, string>>

/**
 * Those that wait for a snapshot slot of one host. Accounts alternate: one that has a slot comes after all others that wait. Of an account
 * the first comes first. Nobody passes one that waits for room, or small work would hold up large work forever.
 */
export class SlotLine {
  readonly #lookEveryMs: number
  readonly #accounts = new Map<string, Set<Waiter>>()
  readonly #served = new WeakSet<Waiter>()
  /** What gives back the reservations of operations that have a slot. */
  readonly #reserved = new Map<string, () => void>()
  /** Account by operation, as of the look before. */
  #holders: ReadonlyMap<string, string> = new Map()
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | null = null

  constructor(lookEveryMs: number) {
    this.#lookEveryMs = lookEveryMs
  }

  join(waiter: Waiter): void {
    this.#accounts.set(waiter.ownerId, (this.#accounts.get(waiter.ownerId) ?? new Set()).add(waiter))
  }

  /** Resolves once no look can give it a slot any more. */
  async leave(waiter: Waiter): Promise<void> {
    const own = this.#accounts.get(waiter.ownerId)
    own?.delete(waiter)
    if (own?.size === 0) this.#accounts.delete(waiter.ownerId)
    await this.#looking?.catch(ignoreError('whoever looks has its failure'))
  }

  /** Whether a look has found that it has a slot. */
  isServed(waiter: Waiter): boolean {
    return this.#served.has(waiter)
  }

  /** Gives slots to those that come next. One look at a time, for all that wait, and none until some time after the one before. */
  async look(assign: Assign): Promise<void> {
    if (this.#looking) return this.#looking
    if (performance.now() - this.#lookedAt < this.#lookEveryMs) return
    this.#lookedAt = performance.now()
    this.#looking = this.#serve(assign).finally(() => {
      this.#looking = null
    })
    return this.#looking
  }

  async #serve(assign: Assign): Promise<void> {
    this.#putHoldersLast()
    const next = await this.#fitting()
    try {
      const holders = await assign([...next.keys()].map(({ operationId }) => operationId))
      for (const [waiter, giveBack] of next) {
        if (!holders.has(waiter.operationId)) continue
        this.#served.add(waiter)
        this.#reserved.set(waiter.operationId, giveBack)
        next.delete(waiter)
      }
      this.#holders = holders
      this.#giveBackUnused()
    } finally {
      for (const giveBack of next.values()) giveBack()
    }
  }

  /** The first of each account, as many as there are slots, with what gives back what they have reserved. */
  async #fitting(): Promise<Map<Waiter, () => void>> {
    const next = new Map<Waiter, () => void>()
    for (const [first] of [...this.#accounts.values()].slice(0, snapshotsAtOnce)) {
      if (!first) continue
      // What cannot be measured holds up nobody: the work itself demands its room.
      const giveBack = first.reserve ? await first.reserve().catch(() => () => {}) : () => {}
      if (!giveBack) break
      next.set(first, giveBack)
    }
    return next
  }

  #putHoldersLast(): void {
    for (const ownerId of this.#holders.values()) {
      const own = this.#accounts.get(ownerId)
      if (!own) continue
      this.#accounts.delete(ownerId)
      this.#accounts.set(ownerId, own)
    }
  }

  #giveBackUnused(): void {
    for (const [operationId, giveBack] of this.#reserved) {
      if (this.#holders.has(operationId)) continue
      this.#reserved.delete(operationId)
      giveBack()
    }
  }
}
