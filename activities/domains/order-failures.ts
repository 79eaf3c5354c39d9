import type { Db } from '../../db/database.ts'
import { recordOrderFailure } from '../../db/domains/certificates.ts'
import { findDomain } from '../../db/domains/domains.ts'
import { orderDelayMs } from '../../policy/domains/times.ts'
import { AuthorityError } from '../certificates/port.ts'

/** The order of this step is gone: the next look decides. */
export class OrderStopped extends Error {}

/** Of this platform: the authority has refused nothing. */
const ownCodes = ['localLimit', 'notApplied']

/** To the next try after an authority did not answer. */
const interruptedMs = 60_000

/**
 * Runs a step of an order. What an authority refuses or does not answer goes into the row with the time of the next try; all else is
 * thrown.
 */
export function recordingFailures(db: Db, now: () => Date) {
  return async (hostname: string, step: () => Promise<void>): Promise<boolean> => {
    try {
      await step()
      return true
    } catch (error) {
      if (error instanceof OrderStopped) return false
      if (!(error instanceof AuthorityError)) throw error
      const domain = await findDomain(db, hostname)
      const refused = !error.isTemporary && !ownCodes.includes(error.code)
      const delayMs = refused
        ? orderDelayMs((domain?.orders_failed ?? 0) + 1, error.retryAfterMs ?? 0)
        : (error.retryAfterMs ?? interruptedMs)
      const orderAt = new Date(now().getTime() + delayMs)
      await recordOrderFailure(db, hostname, { code: error.code, message: error.message, orderAt, refused })
      return false
    }
  }
}
