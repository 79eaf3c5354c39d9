import { sleep } from '@temporalio/activity'
import { type Db, transaction } from '../../db/database.ts'
import { findCertificates, recordRenewal } from '../../db/domains/certificates.ts'
import { warnOfExpiry } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'
import { edgesBehind, isAnyEdgeLive, transactionNumber, wakeEdges } from '../../db/domains/edges.ts'
import { recordNotServed, recordServed } from '../../db/domains/served-certificates.ts'
import { orderLookDelayMs, renewalTime, warningsDue } from '../../policy/domains/times.ts'
import type { CertificateAuthority } from '../certificates/port.ts'

/** The current certificate of a name, as the authority wants it renewed now, and when to ask it again. */
export interface Watched {
  current: CertificateRow | undefined
  /** Null: with the next look. */
  askAt: Date | null
}

interface WatchParts {
  db: Db
  authority: CertificateAuthority | null
  now: () => Date
}

/** Asks the authority again when it wants a certificate renewed, and records that. */
export async function watchRenewal(
  { db, authority, now }: WatchParts,
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
  return { current: { ...current, renew_at: renewAt }, askAt: renewal?.again ?? null }
}

/** Warns of a certificate whose renewal is due and does not go on, for this `reason`. */
export async function warnOfRenewal(
  { db, authority, now }: WatchParts,
  { hostname, reason }: { hostname: string; reason: string },
  current: CertificateRow | undefined,
): Promise<void> {
  if (!authority || !current?.not_before || !current.not_after || !current.renew_at || current.renew_at > now()) return
  const due = warningsDue({ notBefore: current.not_before, notAfter: current.not_after }, now())
  await warnOfExpiry(db, { hostname, reason, due, now: now(), endsAt: current.not_after })
}

/** How long proxies have for a change, and from the first look at them to the second, in milliseconds. */
export interface ProxyTimes {
  pollMs: number
  serveMs: number
}

/** Waits until every live proxy has the current certificate of a name, and records whether they do. False when they take too long, or none lives. */
export async function untilServed(
  db: Db,
  domain: DomainRow,
  { now, ...times }: ProxyTimes & { now: () => Date },
): Promise<boolean> {
  const { current } = await findCertificates(db, domain.hostname)
  if (!current) return false
  const isServed = await untilApplied(db, times, domain.hostname)
  if (isServed) await recordServed(db, current.id)
  else await recordNotServed(db, domain, now())
  return isServed
}

/** Waits until every live proxy has all that was committed before, of `host` too. False when they take too long, or none lives. */
export async function untilApplied(
  db: Db,
  { pollMs, serveMs }: ProxyTimes,
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
