import { sleep } from '@temporalio/activity'
import { type Db, transaction } from '../../db/database.ts'
import { findCertificates, recordRenewal, recordServed } from '../../db/domains/certificates.ts'
import { warnOfExpiry } from '../../db/domains/domain-looks.ts'
import type { CertificateRow } from '../../db/domains/domain-rows.ts'
import { edgesBehind, isAnyEdgeLive, transactionNumber, wakeEdges } from '../../db/domains/edges.ts'
import { orderLookDelayMs, renewalTime, warningsDue } from '../../policy/domains/times.ts'
import { AuthorityError, type CertificateAuthority } from '../certificates/port.ts'
import { OrderStopped } from './order-failures.ts'

/** The current certificate of a name, as the authority wants it renewed now, and when to ask it again. */
export interface Watched {
  current: CertificateRow | undefined
  /** Null: with the next look. */
  askAt: Date | null
}

/**
 * Asks the authority again when it wants a certificate renewed, and records that; warns of one whose renewal is due and has failed. `reason`:
 * why, as it was known before this look.
 */
export async function tellOfExpiry(
  { db, authority, now }: { db: Db; authority: CertificateAuthority | null; now: () => Date },
  { hostname, reason }: { hostname: string; reason: string | null },
  current: CertificateRow | undefined,
): Promise<Watched> {
  if (!authority || !current?.chain || !current.not_before || !current.not_after || !current.renew_at)
    return { current, askAt: null }
  const validity = { notBefore: current.not_before, notAfter: current.not_after }
  const renewal = current.renew_at > now() ? await authority.renewal(current.chain).catch(() => null) : null
  let renewAt = current.renew_at
  if (renewal && (renewAt < renewal.window.from || renewal.window.to < renewAt)) {
    renewAt = renewalTime(validity, renewal.window, Math.random())
    await recordRenewal(db, current.id, renewAt)
  }
  if (renewAt <= now() && reason !== null)
    await warnOfExpiry(db, {
      hostname,
      reason,
      now: now(),
      due: warningsDue(validity, now()),
      endsAt: current.not_after,
    })
  return { current: { ...current, renew_at: renewAt }, askAt: renewal?.again ?? null }
}

/** How long proxies have for a change, and from the first look at them to the second, in milliseconds. */
export interface ProxyPatience {
  pollMs: number
  serveMs: number
}

/** Waits until every live proxy has the current certificate of a name, and records that. Throws `notServed` when they take too long, or none lives. */
export async function untilServed(db: Db, hostname: string, patience: ProxyPatience): Promise<void> {
  const { current } = await findCertificates(db, hostname)
  if (!current) throw new OrderStopped()
  if (!(await untilApplied(db, patience, hostname)))
    throw new AuthorityError('notServed', 'Not every proxy has confirmed the certificate.')
  await recordServed(db, current.id)
}

/** Waits until every live proxy has all that was committed before, of `host` too. False when they take too long, or none lives. */
export async function untilApplied(
  db: Db,
  { pollMs, serveMs }: ProxyPatience,
  host: string | null = null,
): Promise<boolean> {
  const number = await transaction(db, async trx => {
    await wakeEdges(trx)
    // Later than what is waited for: a proxy that has this one has all before it.
    return transactionNumber(trx)
  })
  const end = Date.now() + serveMs
  for (let looks = 0; !(await isAnyEdgeLive(db)) || (await edgesBehind(db, number, host)).length > 0; looks++) {
    if (Date.now() > end) return false
    await sleep(orderLookDelayMs(looks, pollMs)) // ends with the worker
  }
  return true
}
