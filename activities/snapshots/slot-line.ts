import type { SlotHolder } from '../../db/snapshots/snapshot-slots.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'

/** An operation that waits for a snapshot slot. */
export interface Waiter {
  operationId: string
  ownerId: string
  /**
   * Reserves what its work needs alongside these operations of databases, which have slots or get them with it, and resolves to what gives
   * that back; null = there is no room now. What is reserved stays its own as long as it has the slot. Omitted: it needs nothing.
   */
  reserve?: (alongside: readonly string[]) => Promise<(() => void) | null>
}

/** Resolves to the operations that have a slot, once those that wait were given what is free, in their order. */
type Assign = (waiting: readonly string[]) => Promise<ReadonlyMap<string, SlotHolder>>

/**
 * Those that wait for a snapshot slot of one host. Accounts alternate: one that has a slot comes after all others that wait. Of an account
 * the first comes first. None overtakes one that waits for room, or small work would hold up large work forever.
 */
export class SlotLine {
  readonly #lookEveryMs: number
  readonly #accounts = new Map<string, Set<Waiter>>()
  readonly #served = new WeakSet<Waiter>()
  /** By operation. */
  #holders: ReadonlyMap<string, SlotHolder> = new Map()
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
    await this.#looking?.catch(ignoreError('the caller of the look has its failure'))
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
    // Those that have ended since the look before, too.
    this.#putHoldersLast()
    this.#holders = await assign([])
    this.#putHoldersLast()
    const next = await this.#fitting()
    if (next.size === 0) return
    try {
      this.#holders = await assign([...next.keys()].map(({ operationId }) => operationId))
      for (const waiter of next.keys()) {
        if (!this.#holders.has(waiter.operationId)) continue
        this.#served.add(waiter)
        next.delete(waiter)
      }
    } finally {
      for (const giveBack of next.values()) giveBack()
    }
  }

  /** Those that come next and have room, with what gives that back. */
  async #fitting(): Promise<Map<Waiter, () => void>> {
    const next = new Map<Waiter, () => void>()
    const alongside = [...this.#holders].filter(([, { isOfDatabase }]) => isOfDatabase).map(([id]) => id)
    for (const waiter of this.#next()) {
      // What cannot be measured does not wait: the work itself demands its room.
      const giveBack = waiter.reserve ? await waiter.reserve(alongside).catch(() => () => {}) : () => {}
      if (!giveBack) break
      next.set(waiter, giveBack)
      if (waiter.reserve) alongside.push(waiter.operationId)
    }
    return next
  }

  /** Those that have a slot and wait again, and the first of each other account, as many as slots are free. */
  #next(): Waiter[] {
    const owners = new Set([...this.#holders.values()].map(({ ownerId }) => ownerId))
    const again = [...this.#accounts.values()].flatMap(own =>
      [...own].filter(one => this.#holders.has(one.operationId)),
    )
    const others = [...this.#accounts].filter(([ownerId]) => !owners.has(ownerId)).flatMap(([, [first]]) => first ?? [])
    return [...again, ...others.slice(0, Math.max(0, snapshotsAtOnce - this.#holders.size))]
  }

  #putHoldersLast(): void {
    for (const { ownerId } of this.#holders.values()) {
      const own = this.#accounts.get(ownerId)
      if (!own) continue
      this.#accounts.delete(ownerId)
      this.#accounts.set(ownerId, own)
    }
  }
}
