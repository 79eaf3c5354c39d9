import { sleep } from '@temporalio/activity'
import { type Db, transaction } from '../../db/database.ts'
import { findCertificates, recordRenewal, recordServed } from '../../db/domains/certificates.ts'
import { warnOfExpiry } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'
import { edgesBehind, isAnyEdgeLive, transactionNumber, wakeEdges } from '../../db/domains/edges.ts'
import { edgeRules } from '../../policy/domains/edges.ts'
import { renewalTime, warningsDue } from '../../policy/domains/times.ts'
import type { CertificateAuthority } from '../certificates/port.ts'

/** Asks the authority again when it wants a certificate renewed, and warns of one that ends and was not. */
export async function tellOfExpiry(
  { db, authority, now }: { db: Db; authority: CertificateAuthority | null; now: () => Date },
  { hostname }: DomainRow,
  current: CertificateRow | undefined,
): Promise<void> {
  if (!authority || !current?.chain || !current.not_before || !current.not_after || !current.renew_at) return
  const validity = { notBefore: current.not_before, notAfter: current.not_after }
  await warnOfExpiry(db, { hostname, due: warningsDue(validity, now()), endsAt: current.not_after })
  if (current.renew_at <= now()) return
  const renewal = await authority.renewal(current.chain).catch(() => null) // asked again with the next look
  if (!renewal || (renewal.window.from <= current.renew_at && current.renew_at <= renewal.window.to)) return
  await recordRenewal(db, current.id, renewalTime(validity, renewal.window, Math.random()))
}

/** Waits until every live proxy has the current certificate of a name, and records that. False when they take too long, or none lives. */
export async function untilServed(db: Db, hostname: string, pollMs: number): Promise<boolean> {
  const { current } = await findCertificates(db, hostname)
  if (!current || !(await untilApplied(db, pollMs, hostname))) return false
  await recordServed(db, current.id)
  return true
}

/** Waits until every live proxy has all that was committed before, of `host` too. False when they take too long, or none lives. */
export async function untilApplied(db: Db, pollMs: number, host: string | null = null): Promise<boolean> {
  const number = await transaction(db, async trx => {
    await wakeEdges(trx)
    // Later than what is waited for: a proxy that has this one has all before it.
    return transactionNumber(trx)
  })
  const end = Date.now() + edgeRules.serveSeconds * 1000
  while (!(await isAnyEdgeLive(db)) || (await edgesBehind(db, number, host)).length > 0) {
    if (Date.now() > end) return false
    await sleep(pollMs) // ends with the worker
  }
  return true
}
