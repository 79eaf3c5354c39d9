import { endSlotLease, renewSlotLease, type SlotLease } from '../../db/slot-leases.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import type { Services } from '../services.ts'

/** A leased slot while work is done in it. */
export interface HeldLease {
  lease: SlotLease
  /** Set by work that has ended the lease itself, in its own commit. */
  isEnded: boolean
}

/** Runs `work` in a leased slot, renews the lease meanwhile, and ends it before the answer. */
export async function withLease<T>(
  { db }: Services,
  lease: SlotLease,
  work: (held: HeldLease) => Promise<T>,
): Promise<T> {
  const held = { lease, isEnded: false }
  let renewing: Promise<void> | undefined
  const renew = () => {
    renewing = renewSlotLease(db, lease).catch(ignoreError('two more renewals come before it expires'))
  }
  const renewal = setInterval(renew, (leaseSeconds.body / 3) * 1000)
  try {
    return await work(held)
  } finally {
    clearInterval(renewal)
    // A renewal that arrives after the end would restore the lease, even one that the work has ended itself.
    await renewing
    if (!held.isEnded || renewing) await endSlotLease(db, lease).catch(ignoreError('the lease expires'))
  }
}
