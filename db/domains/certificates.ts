import {
  isPlaceLeft,
  type OrderLimits,
  orderKind,
  orderLimits,
  ownAuthority,
} from '../../policy/domains/order-limits.ts'
import { newId } from '../../policy/ids.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import { type Db, transaction } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { recordDomainEvent } from './domain-events.ts'
import { type CertificateRow, type DomainClaim, type DomainRow, isSameClaim } from './domain-rows.ts'

/** What the key of a certificate is sealed for (policy/seal.ts). */
export const certificateKeyBinding = (id: string): string => `certificates/${id}`

export interface CertificatesOfName {
  current: CertificateRow | undefined
  ordered: CertificateRow | undefined
}

export async function findCertificates(db: Db, hostname: string): Promise<CertificatesOfName> {
  const rows: CertificateRow[] = await db('certificates').where({ hostname })
  return { current: rows.find(isIn('current')), ordered: rows.find(isIn('ordered')) }
}

const isIn =
  (state: CertificateRow['state']) =>
  (row: CertificateRow): boolean =>
    row.state === state

interface WantedOrder {
  hostname: string
  registered: string
  authority: string
  /** By the clock that has found an order before to be over. */
  now?: Date
}

/**
 * The order of a name that is under way, or a new one, which takes a place of the authority's limits. Null: no place is free now, or the
 * name was released.
 */
export async function takeOrder(
  db: Db,
  { hostname, registered, authority, now = new Date() }: WantedOrder,
  limits: OrderLimits = orderLimits,
): Promise<CertificateRow | null> {
  return transaction(db, async trx => {
    const domain = await trx('domains').where({ hostname }).forUpdate().first('hostname', 'owner_id')
    if (!domain) return null
    // Of an authority that was replaced, or that has forgotten it.
    await trx('certificates')
      .where({ hostname, state: 'ordered' })
      .where(or => or.whereNot({ authority }).orWhere('order_ends_at', '<=', now))
      .delete()
    const { current, ordered } = await findCertificates(trx, hostname)
    if (ordered) return ordered
    const replaced = current?.authority === authority ? current : undefined
    if (authority !== ownAuthority && !(await takePlace(trx, { ...domain, registered, replaced, now }, limits)))
      return null
    const [order] = await trx('certificates')
      .insert({ id: newId(), hostname, state: 'ordered', authority })
      .returning('*')
    return order
  })
}

interface WantedPlace {
  owner_id: string | null
  registered: string
  /** The certificate of the same authority that the order is to renew. */
  replaced: CertificateRow | undefined
  now: Date
}

/** Takes a place of the authority's limits. False: none is left. */
async function takePlace(
  trx: Db,
  { owner_id, registered, replaced, now }: WantedPlace,
  limits: OrderLimits,
): Promise<boolean> {
  const { not_before: notBefore, not_after: notAfter } = replaced ?? {}
  const kind = orderKind(notBefore && notAfter ? { notBefore, notAfter } : null, now)
  await trx.raw(`select pg_advisory_xact_lock(hashtextextended('certificate orders', 0))`)
  const { rows } = await trx.raw(
    `select count(*) filter (where recent)::int as recent,
            count(*) filter (where recent and owner_id = :owner_id)::int as "ofAccount",
            count(*) filter (where registered = :registered and not renewal)::int as "ofDomain"
       from (select *, at > now() - make_interval(secs => :windowSeconds) as recent
               from certificate_orders where at > now() - make_interval(secs => :domainWindowSeconds)) taken`,
    {
      ...{ owner_id, registered },
      ...{ windowSeconds: limits.windowSeconds, domainWindowSeconds: limits.domainWindowSeconds },
    },
  )
  if (!isPlaceLeft(kind, rows[0], limits)) return false
  await trx('certificate_orders').insert({ registered, owner_id, renewal: kind !== 'first' })
  return true
}

export type OpenedOrder = Pick<CertificateRow, 'order_url' | 'challenge' | 'dns_value' | 'order_ends_at'>

/**
 * Records what the authority has answered to an order, once: an attempt that was suspended and comes late changes nothing, as its successor
 * works on the order that it has got.
 */
export async function recordOrder(db: Db, id: string, order: OpenedOrder): Promise<void> {
  await db('certificates').where({ id, state: 'ordered' }).whereNull('order_url').update(order)
}

export interface CertificateRequestParts {
  /** PEM */
  privateKey: string
  /** DER */
  csr: Buffer
}

/** The key and request of an order, made once: repeating the last step sends the same. Null when the order is missing. */
export async function ensureRequest(
  db: Db,
  keys: SealKeys,
  id: string,
  make: () => Promise<CertificateRequestParts>,
): Promise<CertificateRequestParts | null> {
  const { privateKey, csr } = await make()
  const sealed = seal(keys, privateKey, certificateKeyBinding(id))
  await db('certificates').where({ id, state: 'ordered' }).whereNull('key_sealed').update({ key_sealed: sealed, csr })
  const row: CertificateRow | undefined = await db('certificates').where({ id, state: 'ordered' }).first()
  if (!row?.key_sealed || !row.csr) return null
  return { privateKey: unseal(keys, row.key_sealed, certificateKeyBinding(id)), csr: row.csr }
}

export interface IssuedChain {
  /** PEM, the leaf first. */
  chain: string
  issuer: string
  serial: string
  notBefore: Date
  notAfter: Date
  renewAt: Date
}

/** Makes an order the current certificate of its name, in place of the one before. False when the order is missing. */
export async function storeCertificate(db: Db, id: string, issued: IssuedChain): Promise<boolean> {
  return transaction(db, async trx => {
    const order: CertificateRow | undefined = await trx('certificates')
      .where({ id, state: 'ordered' })
      .forUpdate()
      .first()
    if (!order) return false
    const { hostname } = order
    await trx('certificates').where({ hostname, state: 'current' }).delete()
    await trx('certificates')
      .where({ id })
      .update({
        state: 'current',
        chain: issued.chain,
        issuer: issued.issuer,
        serial: issued.serial,
        not_before: issued.notBefore,
        not_after: issued.notAfter,
        renew_at: issued.renewAt,
        ...{ order_url: null, challenge: null, dns_value: null, order_ends_at: null, csr: null },
      })
    await trx('domains').where({ hostname }).update({ orders_failed: 0, expiry_mails: 0, code: null, message: null })
    await recordDomainEvent(trx, hostname, `certificate of ${issued.issuer} until ${issued.notAfter.toISOString()}`)
    return true
  })
}

/** Moves a renewal, as the authority has requested. */
export async function recordRenewal(db: Db, id: string, renewAt: Date): Promise<void> {
  await db('certificates').where({ id, state: 'current' }).update({ renew_at: renewAt })
}

export interface OrderFailure {
  code: string
  message: string
  /** No other order before. */
  orderAt: Date
  /** The authority has refused it: a new order is needed. Else the same one goes on. */
  refused: boolean
  /** The order that failed, as the step knew it; null: there was none yet. */
  order: Pick<CertificateRow, 'id' | 'order_url'> | null
}

/** Records why an order did not go on, unless it or its name was deleted meanwhile, or a later attempt has opened it. */
export async function recordOrderFailure(
  db: Db,
  domain: DomainClaim,
  { code, message, orderAt, refused, order }: OrderFailure,
): Promise<void> {
  const { hostname } = domain
  await transaction(db, async trx => {
    const row: DomainRow | undefined = await trx('domains').where({ hostname }).forUpdate().first()
    if (!row || !isSameClaim(row, domain)) return
    const failed = order && { id: order.id, order_url: order.order_url, state: 'ordered' }
    if (failed && !(await trx('certificates').where(failed).first('id'))) return
    await trx('domains')
      .where({ hostname })
      .update({ code, message, order_at: orderAt, ...(refused && { orders_failed: row.orders_failed + 1 }) })
    if (refused && failed) await trx('certificates').where(failed).delete()
    await recordDomainEvent(trx, hostname, `${refused ? 'order refused' : 'order interrupted'}: ${message}`)
  })
}

/** What is to be found in DNS for an order under way. */
export interface DnsChallenge {
  hostname: string
  /** Null: of the platform itself. */
  owner_id: string | null
  value: string
}

/** Every order that waits for an answer in DNS, which our own name server gives where it is delegated. */
export async function listDnsChallenges(db: Db): Promise<DnsChallenge[]> {
  return db('certificates')
    .join('domains', 'domains.hostname', 'certificates.hostname')
    .whereNotNull('certificates.dns_value')
    .select('certificates.hostname', 'domains.owner_id', 'certificates.dns_value as value')
}

/** Deletes places of orders that no limit counts any more; resolves to their number. */
export function sweepOrders(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'certificate_orders',
    when: 'old.at < now() - make_interval(secs => :seconds)',
    values: { seconds: orderLimits.domainWindowSeconds },
  })
}
