import {
  endStreamLease,
  renewStreamLeases,
  type StreamLease,
  takeStreamLease,
} from '../../db/apps/realtime-listeners.ts'
import type { Db } from '../../db/database.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { realtimeConnections } from '../../policy/limits.ts'
import { eventStreams } from '../../policy/timeouts.ts'

/** The leases of the streams that this process serves; limits count those of all processes. */
export class RealtimeLeases {
  readonly #db: Db
  readonly #scale: number
  readonly #held = new Map<string, StreamLease>()
  readonly #takes = new KeyedLock()
  /** A stream ends after this many milliseconds (contract 4.15). */
  readonly maxMs: number

  constructor(db: Db, scale: number, maxMs: number = eventStreams.maxMs) {
    this.maxMs = maxMs
    this.#db = db
    this.#scale = scale
  }

  /** Takes a lease and resolves to its id. Throws REALTIME_MAX_CONNECTIONS and REALTIME_MAX_CONNECTIONS_APP. */
  async take(userId: string, appId: string): Promise<string> {
    const lease = { id: newId(), userId, appId }
    const limits = { perUser: this.#max('perUser'), perApp: this.#max('perApp') }
    // One at a time: those that wait for a lock in the database would hold a connection each.
    const outcome = await this.#takes.run('', () => takeStreamLease(this.#db, lease, limits))
    if (outcome === 'user full') throw new CodedError('REALTIME_MAX_CONNECTIONS')
    if (outcome === 'app full') throw new CodedError('REALTIME_MAX_CONNECTIONS_APP')
    this.#held.set(lease.id, lease)
    return lease.id
  }

  /** Ends a lease; if the database is unavailable, it expires. */
  async release(id: string): Promise<void> {
    this.#held.delete(id)
    await endStreamLease(this.#db, id).catch(ignoreError('the lease expires'))
  }

  /** To be called several times within the lifetime of a lease, 60 s. */
  async renew(): Promise<void> {
    const renewed = [...this.#held.values()]
    if (renewed.length === 0) return
    await renewStreamLeases(this.#db, renewed)
    // Released meanwhile, possibly before it was renewed.
    for (const { id } of renewed) if (!this.#held.has(id)) await this.release(id)
  }

  #max(kind: keyof typeof realtimeConnections): number {
    return Math.max(1, Math.floor(realtimeConnections[kind] * this.#scale))
  }
}
