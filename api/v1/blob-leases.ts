import { endSlotLease, renewSlotLease, type SlotLease } from '../../db/slot-leases.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import type { Services } from '../services.ts'

/** A place while work is done in it. */
export interface HeldLease {
  lease: SlotLease
  /** Set by work that has given the place back itself, in its own commit. */
  over: boolean
}

/** Does `work` while a place is kept, which is given back before the answer. */
export async function withLease<T>(
  { db }: Services,
  lease: SlotLease,
  work: (place: HeldLease) => Promise<T>,
): Promise<T> {
  const place = { lease, over: false }
  let renewing: Promise<void> | undefined
  const renew = () => {
    renewing = renewSlotLease(db, lease).catch(ignoreError('two more renewals come before it expires'))
  }
  const renewal = setInterval(renew, (leaseSeconds.body / 3) * 1000)
  try {
    return await work(place)
  } finally {
    clearInterval(renewal)
    // A renewal that arrives after the end would bring the place back, also that of work that has given it back itself.
    await renewing
    // What the database does not hear of ends by itself.
    if (!place.over || renewing) await endSlotLease(db, lease).catch(ignoreError('the lease expires'))
  }
}
