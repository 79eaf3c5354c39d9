import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import { takeSnapshotSlot } from '../../db/snapshots/snapshot-slots.ts'
import { pause } from '../../lib/async/loop.ts'
import { placeLost } from '../../policy/apps/claims.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import { refusal } from '../failures.ts'

interface SlotRequest {
  hostId: string
  operationId: string
}

/** In milliseconds. */
interface Intervals {
  lookEveryMs: number
  holdEveryMs: number
  /** How long a lease lasts without renewal. */
  heldMs: number
}

const defaultIntervals: Intervals = { lookEveryMs: 300, holdEveryMs: 5000, heldMs: leaseSeconds.snapshot * 1000 }

export type SnapshotSlots = ReturnType<typeof snapshotSlots>

/**
 * The snapshot slots of hosts, leased in Postgres. Create it once per process: the next snapshot of a host also waits for copies
 * that still run in this process, even if their lease is lost.
 */
export function snapshotSlots(db: Db, intervals: Partial<Intervals> = {}) {
  const { lookEveryMs, holdEveryMs, heldMs } = { ...defaultIntervals, ...intervals }
  /** Host by operation. */
  const copying = new Map<string, string>()
  const othersCopy = ({ hostId, operationId }: SlotRequest) =>
    [...copying].some(([operation, host]) => host === hostId && operation !== operationId)
  const hold = ({ hostId, operationId }: SlotRequest) => takeSnapshotSlot(db, hostId, operationId)

  /** Renews the lease until `done` aborts; resolves to whether it was lost. While the database is unreachable, the lease lasts until it expires. */
  async function keep(request: SlotRequest, heldUntil: number, done: AbortSignal): Promise<boolean> {
    for (let until = heldUntil; ; ) {
      await pause(holdEveryMs, done)
      if (done.aborted) return false
      const requestedAt = performance.now()
      const held = await hold(request).catch(() => null)
      if (held) until = requestedAt + heldMs
      else if (held === false || performance.now() > until) return true
    }
  }

  return {
    /** Waits until the operation holds its host's slot, also while the database is unreachable; rejects when the signal aborts. */
    async wait(request: SlotRequest, signal: AbortSignal): Promise<void> {
      while (othersCopy(request) || !(await hold(request).catch(() => false)))
        await sleep(lookEveryMs, undefined, { signal })
    },

    /**
     * Runs the work while the operation holds its host's slot. The signal of the work aborts when another operation gets the slot, or
     * when the lease expires without an answer from the database. Then rejects with PlaceLost (policy/apps/claims.ts) once the work has
     * ended; also rejects with it, without starting the work, when another operation holds the slot.
     */
    async holding<T>(request: SlotRequest, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
      const requestedAt = performance.now()
      if (!(await hold(request))) throw slotLost()
      const [lost, done] = [new AbortController(), new AbortController()]
      copying.set(request.operationId, request.hostId)
      const keeping = keep(request, requestedAt + heldMs, done.signal).then(isLost => {
        if (isLost) lost.abort(slotLost())
      })
      try {
        return await work(AbortSignal.any([signal, lost.signal]))
      } catch (error) {
        throw lost.signal.aborted ? lost.signal.reason : error
      } finally {
        done.abort()
        copying.delete(request.operationId)
        // So that it is not renewed after it was given back.
        await keeping
      }
    },
  }
}

const slotLost = () => refusal(placeLost, 'Another operation holds the snapshot slot of this host now.')
