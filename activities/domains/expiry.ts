import type { Db } from '../../db/database.ts'
import { recordRenewal } from '../../db/domains/certificates.ts'
import { warnOfExpiry } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'
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
