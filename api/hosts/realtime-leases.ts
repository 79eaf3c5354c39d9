import {
  endStreamLease,
  renewStreamLeases,
  type StreamLease,
  takeStreamLease,
} from '../../db/apps/realtime-listeners.ts'
import type { Db } from '../../db/database.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { ApiError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { realtimeConnections } from '../../policy/limits.ts'
import { eventStreams } from '../../policy/patience.ts'

/** The places of the streams that this process serves; they count over all processes. */
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

  /** Takes a place and gives its id. Throws REALTIME_MAX_CONNECTIONS and REALTIME_MAX_CONNECTIONS_APP. */
  async take(userId: string, appId: string): Promise<string> {
    const lease = { id: newId(), userId, appId }
    const limits = { perUser: this.#most('perUser'), perApp: this.#most('perApp') }
    // One at a time: those who wait for a turn in the database would hold a connection each.
    const outcome = await this.#takes.run('', () => takeStreamLease(this.#db, lease, limits))
    if (outcome === 'user full') throw new ApiError('REALTIME_MAX_CONNECTIONS')
    if (outcome === 'app full') throw new ApiError('REALTIME_MAX_CONNECTIONS_APP')
    this.#held.set(lease.id, lease)
    return lease.id
  }

  /** Gives a place back; when the database is away, it ends by itself. */
  async release(id: string): Promise<void> {
    this.#held.delete(id)
    await endStreamLease(this.#db, id).catch(ignoreError('the lease expires'))
  }

  /** To be called several times within the life of a lease, 60 s. */
  async renew(): Promise<void> {
    const renewed = [...this.#held.values()]
    if (renewed.length === 0) return
    await renewStreamLeases(this.#db, renewed)
    // Given back meanwhile, perhaps before it was renewed.
    for (const { id } of renewed) if (!this.#held.has(id)) await this.release(id)
  }

  #most(kind: keyof typeof realtimeConnections): number {
    return Math.max(1, Math.floor(realtimeConnections[kind] * this.#scale))
  }
}
