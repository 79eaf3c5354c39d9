import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import { assignSnapshotSlots, holdSnapshotSlot } from '../../db/snapshots/snapshot-slots.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { pause } from '../../lib/async/loop.ts'
import { placeLost } from '../../policy/apps/claims.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import { refusal } from '../failures.ts'
import { SlotLine, type Waiter } from './slot-line.ts'

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
 * The snapshot slots of hosts, leased in Postgres: an account has one of a host at a time, and accounts alternate. Create it once per
 * process: all that wait for a slot are in one line, and copies that still run in this process count, even if their lease is lost.
 */
export function snapshotSlots(db: Db, intervals: Partial<Intervals> = {}) {
  const { lookEveryMs, holdEveryMs, heldMs } = { ...defaultIntervals, ...intervals }
  /** Host by operation. */
  const copying = new Map<string, string>()
  const lines = new Map<string, SlotLine>()
  const lineOf = (hostId: string): SlotLine => {
    const line = lines.get(hostId) ?? new SlotLine(lookEveryMs)
    lines.set(hostId, line)
    return line
  }
  const hold = ({ hostId, operationId }: SlotRequest) => holdSnapshotSlot(db, hostId, operationId)

  /** Gives the free slots of a host to those that are next in its line. */
  const look = (hostId: string) =>
    lineOf(hostId).look(waiting => {
      const copies = [...copying].filter(([id, host]) => host === hostId && !waiting.includes(id)).map(([id]) => id)
      return assignSnapshotSlots(db, { hostId, waiting, copying: copies })
    })

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
    /** Waits until the operation holds a slot of its host, also while the database is unreachable; rejects when the signal aborts. */
    async wait({ hostId, ...waiter }: Waiter & { hostId: string }, signal: AbortSignal): Promise<void> {
      const line = lineOf(hostId)
      line.join(waiter)
      try {
        for (;;) {
          await look(hostId).catch(ignoreError('it is looked for again'))
          if (line.isServed(waiter)) return
          await sleep(lookEveryMs, undefined, { signal })
        }
      } finally {
        // A caller that gave up gives back a slot that it has got meanwhile.
        await line.leave(waiter)
      }
    },

    /** Takes a slot that is free now. Rejects with PlaceLost when none is, others come first or have just looked, or the database is unreachable. */
    async takeFree({ hostId, ...waiter }: Waiter & { hostId: string }): Promise<void> {
      const line = lineOf(hostId)
      line.join(waiter)
      await look(hostId).catch(ignoreError('it is looked for again in the line'))
      await line.leave(waiter)
      if (!line.isServed(waiter)) throw slotLost()
    },

    /**
     * Runs the work while the operation holds a slot of its host. The signal of the work aborts when another operation gets the slot, or
     * when the lease expires without an answer from the database. Then rejects with PlaceLost (policy/apps/claims.ts) once the work has
     * ended; also rejects with it, without starting the work, when no slot is free for its account.
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

const slotLost = () => refusal(placeLost, 'Other operations hold the snapshot slots of this host now.')
