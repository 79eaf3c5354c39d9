import { CodedError } from '../../policy/errors.ts'
import { type SealKeys, unseal } from '../../policy/seal.ts'
import { type Db, transaction } from '../database.ts'
import { certificateKeyBinding } from './certificates.ts'
import { recordDomainEvent } from './domain-events.ts'
import { type CertificateRow, type DomainClaim, type DomainRow, isSameClaim } from './domain-rows.ts'

/** Not every live proxy has the current certificate of a name. */
export const notServed = 'notServed'

/**
 * Records that not every live proxy has the current certificate of a name, unless an order waits for a reason of its own. When the next one
 * is tried is not for this to decide.
 */
export async function recordNotServed(db: Db, domain: DomainClaim, now: Date): Promise<void> {
  const { hostname } = domain
  const message = 'Not every proxy has confirmed the certificate.'
  await transaction(db, async trx => {
    const row: DomainRow | undefined = await trx('domains').where({ hostname }).forUpdate().first()
    if (!row || !isSameClaim(row, domain) || row.orders_failed > 0 || row.order_at > now) return
    await trx('domains').where({ hostname }).update({ code: notServed, message })
    await recordDomainEvent(trx, hostname, `not served: ${message}`)
  })
}

/** Records that every live proxy has a certificate; that it did not is over. */
export async function recordServed(db: Db, id: string): Promise<void> {
  const hostname = db('certificates').where({ id }).select('hostname')
  await db('domains').where({ hostname, code: notServed }).update({ code: null, message: null })
  await db('certificates').where({ id, state: 'current' }).whereNull('served_at').update({ served_at: db.fn.now() })
}

/** A certificate as proxies get it. */
export interface ServedCertificate {
  hostname: string
  /** Another one for each certificate. */
  version: string
  chain: string
  privateKey: string
}

/** Host name and version of every current certificate, or of some names. */
export async function listCertificateVersions(
  db: Db,
  hostnames?: readonly string[],
): Promise<{ hostname: string; version: string }[]> {
  const query = db('certificates').where({ state: 'current' }).select('hostname', 'id as version')
  return hostnames ? query.whereIn('hostname', hostnames) : query
}

/** The current certificate of a name, opened. Undefined without one. Throws READ_FAILED when its key cannot be decrypted. */
export async function openCertificate(
  db: Db,
  keys: SealKeys,
  hostname: string,
): Promise<ServedCertificate | undefined> {
  const row: CertificateRow | undefined = await db('certificates').where({ hostname, state: 'current' }).first()
  if (!row?.chain || !row.key_sealed) return undefined
  const { id: version, chain } = row
  try {
    return { hostname, version, chain, privateKey: unseal(keys, row.key_sealed, certificateKeyBinding(version)) }
  } catch {
    throw new CodedError('READ_FAILED', `The key of the certificate of ${hostname} cannot be decrypted.`)
  }
}
