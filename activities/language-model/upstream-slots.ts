import { type BreakerCall, CircuitBreaker } from '../../lib/async/circuit-breaker.ts'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { upstreamBreaker, upstreamSlots } from '../../policy/ai/upstreams.ts'
import type { Upstream } from './upstream.ts'

export interface SlotOptions {
  /** Concurrent calls at one upstream. */
  atOnce: number
  waitMs?: number
  waitingPerAccount?: number
  /** How long an upstream that fails is skipped. */
  pauseMs?: number
  now?: () => number
}

/** One upstream with what bounds its use. */
export interface Station {
  /** Its position in the setting, from 1. */
  number: number
  upstream: Upstream
  slots: FairSlots
  breaker: CircuitBreaker
}

/** The right to send one request to an upstream. `release` is called once the call has ended. */
export interface Slot {
  station: Station
  call: BreakerCall
  release: () => void
}

/**
 * Hands out the slots of upstreams. Accounts that wait get them alternately, and none may have all: the next account finds one, however
 * slowly the calls of the others end.
 */
export class UpstreamSlots {
  readonly stations: readonly Station[]
  readonly #waitMs: number
  readonly #waitingPerAccount: number
  readonly #waiting = new Map<string, number>()

  constructor(upstreams: readonly Upstream[], options: SlotOptions) {
    const { atOnce, pauseMs = upstreamBreaker.pauseMs, now } = options
    this.#waitMs = options.waitMs ?? upstreamSlots.waitMs
    this.#waitingPerAccount = options.waitingPerAccount ?? upstreamSlots.waitingPerAccount
    this.stations = upstreams.map((upstream, n) => ({
      number: n + 1,
      upstream,
      slots: new FairSlots({ atOnce, perSubject: 'spare' }),
      breaker: new CircuitBreaker({ failures: upstreamBreaker.failures, pauseMs, ...(now && { now }) }),
    }))
  }

  /** Opens the time that one call may wait, which all its tries share. */
  waitTime(): WaitTime {
    return { leftMs: this.#waitMs }
  }

  /**
   * Resolves to a slot of the first of these upstreams that has one and is not skipped; if all are busy, of the first that gets one.
   * Resolves to null when all are skipped, when the time is over, when the account has too many calls waiting, or when the signal aborts.
   */
  async enter(
    among: Iterable<Station>,
    account: string,
    waitTime: WaitTime,
    signal: AbortSignal,
  ): Promise<Slot | null> {
    while (!signal.aborted) {
      const usable = [...among].filter(({ breaker }) => breaker.letsThrough(account))
      for (const station of usable) {
        const slot = slotOf(station, account, station.slots.enterNow(account))
        if (slot) return slot
      }
      if (usable.length === 0 || waitTime.leftMs <= 0 || this.#waitingOf(account) >= this.#waitingPerAccount)
        return null
      // Its upstream may have failed while the call waited: then it looks again.
      const slot = await this.#wait(usable, account, waitTime, signal)
      if (slot) return slot
    }
    return null
  }

  async #wait(usable: Station[], account: string, waitTime: WaitTime, signal: AbortSignal): Promise<Slot | null> {
    const since = performance.now()
    this.#waiting.set(account, this.#waitingOf(account) + 1)
    try {
      return await firstFree(usable, account, waitTime.leftMs, signal)
    } finally {
      waitTime.leftMs -= performance.now() - since
      const left = this.#waitingOf(account) - 1
      left > 0 ? this.#waiting.set(account, left) : this.#waiting.delete(account)
    }
  }

  #waitingOf(account: string): number {
    return this.#waiting.get(account) ?? 0
  }
}

/** Milliseconds that a call may still wait. */
interface WaitTime {
  leftMs: number
}

/** The slot with its call; null, and the slot released, where the upstream is skipped by now. */
function slotOf(station: Station, account: string, release: (() => void) | null): Slot | null {
  if (!release) return null
  const call = station.breaker.enter(account)
  if (call) return { station, call, release }
  release()
  return null
}

/** Waits in the queues of all these upstreams, and leaves the others once one has a slot. */
async function firstFree(usable: Station[], account: string, ms: number, signal: AbortSignal): Promise<Slot | null> {
  const over = new AbortController()
  const end = () => over.abort()
  const timer = setTimeout(end, ms)
  signal.addEventListener('abort', end, { once: true })
  let first: Slot | null = null
  const waits = usable.map(async station => {
    const release = await station.slots.enterUntil(account, over.signal).catch(() => null) // the wait is over
    if (first) return release?.()
    first = slotOf(station, account, release)
    if (release) end()
  })
  await Promise.all(waits)
  clearTimeout(timer)
  signal.removeEventListener('abort', end)
  return first
}
