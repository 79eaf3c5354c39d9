import type { Db } from '../../db/database.ts'
import { findCertificates, recordOrderFailure } from '../../db/domains/certificates.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'
import { findDomain } from '../../db/domains/domains.ts'
import { believedRetryMs, interruptedDelayMs, orderDelayMs } from '../../policy/domains/times.ts'
import { chainFacts, chainTrouble } from '../certificates/chain.ts'
import { AuthorityError } from '../certificates/port.ts'

/** The order of this step is missing: the next look decides. */
export class OrderStopped extends Error {}

/** Of this platform: the authority has refused nothing. */
const ownCodes = ['localLimit', 'notApplied', 'notYetValid']
/** Of an order that the authority has opened these refuse one request; the order itself, and what it was proved by, goes on. */
const passingCodes = ['rateLimited', 'orderNotReady']

/** The authority has ended an order: no repetition saves it, whatever the reason is. */
export class OrderInvalid extends AuthorityError {
  override get isTemporary(): boolean {
    return false
  }
}

/** A step of an order, while it runs. */
export interface Attempt {
  /** Null until there is one. */
  order: Pick<CertificateRow, 'id' | 'created_at' | 'order_url'> | null
}

/**
 * Runs a step of an order. What an authority refuses or does not answer goes into the row with the time of the next try; all else is
 * thrown.
 */
export function recordingFailures(db: Db, now: () => Date) {
  return async (hostname: string, step: (domain: DomainRow, attempt: Attempt) => Promise<void>): Promise<boolean> => {
    const domain = await findDomain(db, hostname)
    if (!domain) return false
    const attempt: Attempt = { order: null }
    try {
      await step(domain, attempt)
      return true
    } catch (error) {
      if (error instanceof OrderStopped) return false
      if (!(error instanceof AuthorityError)) throw error
      const refused = isRefusal(error, attempt)
      const { code, message } = error
      const { current } = await findCertificates(db, hostname)
      const retryMs = believedRetryMs(error.retryAfterMs ?? 0, current?.not_after ?? null, now())
      const ageMs = attempt.order ? now().getTime() - attempt.order.created_at.getTime() : 0
      const delayMs = refused ? orderDelayMs(domain.orders_failed + 1, retryMs) : interruptedDelayMs(ageMs, retryMs)
      const orderAt = new Date(now().getTime() + delayMs)
      await recordOrderFailure(db, domain, { code, message, orderAt, refused, order: attempt.order })
      return false
    }
  }
}

function isRefusal(error: AuthorityError, { order }: Attempt): boolean {
  if (error instanceof OrderInvalid) return true
  if (error.isTemporary || ownCodes.includes(error.code)) return false
  return !order?.order_url || !passingCodes.includes(error.code)
}

/**
 * Throws `wrongCertificate` for a chain that cannot serve, and `notYetValid` for one that only begins later: authorities issue for now, so
 * this machine's clock is behind, and the certificate is good as soon as it is right.
 */
export function demandServable(
  chain: string,
  { now, ...parts }: { privateKey: string; hostnames: string[]; now: Date },
): void {
  const trouble = chainTrouble(chain, { ...parts, now })
  if (trouble === null) return
  const begins = beginOf(chain)
  if (begins && now < begins && chainTrouble(chain, { ...parts, now: begins }) === null)
    throw new AuthorityError('notYetValid', `${trouble} The clock of the platform may be behind.`)
  throw new AuthorityError('wrongCertificate', trouble)
}

function beginOf(chain: string): Date | null {
  try {
    return chainFacts(chain).notBefore
  } catch {
    return null // the trouble says that it cannot be read
  }
}
