import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import { takeSnapshotSlot } from '../../db/snapshots/snapshot-places.ts'
import { pause } from '../../lib/async/loop.ts'
import { placeLost } from '../../policy/apps/claims.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import { refusal } from '../failures.ts'

interface Asking {
  hostId: string
  operationId: string
}

/** In milliseconds. */
interface Paces {
  lookEveryMs: number
  holdEveryMs: number
  /** How long a lease stands without being renewed. */
  heldMs: number
}

const usualPaces: Paces = { lookEveryMs: 300, holdEveryMs: 5000, heldMs: leaseSeconds.snapshot * 1000 }

export type SnapshotPlaces = ReturnType<typeof snapshotPlaces>

/**
 * The places of hosts for snapshots, leased in Postgres. Make it once in a process: the next snapshot of a host also waits for the end
 * of what is copied here, whatever has become of the lease.
 */
export function snapshotPlaces(db: Db, paces: Partial<Paces> = {}) {
  const { lookEveryMs, holdEveryMs, heldMs } = { ...usualPaces, ...paces }
  /** Host by operation. */
  const copying = new Map<string, string>()
  const othersCopy = ({ hostId, operationId }: Asking) =>
    [...copying].some(([operation, host]) => host === hostId && operation !== operationId)
  const hold = ({ hostId, operationId }: Asking) => takeSnapshotSlot(db, hostId, operationId)

  /** Renews the lease until `over` aborts; resolves to whether it was lost. A database that is away has taken nothing yet. */
  async function keep(asking: Asking, heldUntil: number, over: AbortSignal): Promise<boolean> {
    for (let until = heldUntil; ; ) {
      await pause(holdEveryMs, over)
      if (over.aborted) return false
      const asked = performance.now()
      const held = await hold(asking).catch(() => null)
      if (held) until = asked + heldMs
      else if (held === false || performance.now() > until) return true
    }
  }

  return {
    /** Waits until the operation has its host's place, also over a database that is away; rejects when the signal aborts. */
    async wait(asking: Asking, signal: AbortSignal): Promise<void> {
      while (othersCopy(asking) || !(await hold(asking).catch(() => false)))
        await sleep(lookEveryMs, undefined, { signal })
    },

    /**
     * Does the work while the operation has its host's place. The signal that the work is given aborts when the place is somebody
     * else's, or its lease has run out without an answer from the database. Rejects with PlaceLost (policy/apps/claims.ts) once the work has
     * ended then, and without beginning it when another operation has the place.
     */
    async holding<T>(asking: Asking, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
      const asked = performance.now()
      if (!(await hold(asking))) throw lostPlace()
      const [lost, over] = [new AbortController(), new AbortController()]
      copying.set(asking.operationId, asking.hostId)
      const keeping = keep(asking, asked + heldMs, over.signal).then(isLost => {
        if (isLost) lost.abort(lostPlace())
      })
      try {
        return await work(AbortSignal.any([signal, lost.signal]))
      } catch (error) {
        throw lost.signal.aborted ? lost.signal.reason : error
      } finally {
        over.abort()
        copying.delete(asking.operationId)
        // Not to be renewed after it was given back.
        await keeping
      }
    },
  }
}

const lostPlace = () => refusal(placeLost, 'The place of its host for snapshots is another one’s by now.')
