import type { Db } from '../database.ts'
import type { CertificateRow, DomainRow } from './domain-rows.ts'

/** A custom name that proxies serve, and the applications behind it in the order of their subdomains. */
export interface ServedDomain {
  hostname: string
  members: { id: string; subdomain: string; health: 'healthy' | 'unknown' | 'unhealthy' }[]
}

/** Every proved custom name with its applications, or those of some names. When `health` changes, the trigger apps_domain_updated notes it. */
export async function listServedDomains(db: Db, hostnames?: readonly string[]): Promise<ServedDomain[]> {
  const { rows } = await db.raw(
    `select d.hostname, jsonb_agg(jsonb_build_object('id', a.id, 'subdomain', a.subdomain,
                'health', member_health(a.health, a.health_path, a.status)) order by a.subdomain) as members
       from domains d join apps a on a.custom_domain = d.hostname and a.subdomain is not null and not a.accepting
      where d.proved_at is not null and d.owner_id is not null
        and (:hostnames::text[] is null or d.hostname = any(:hostnames::text[]))
      group by d.hostname`,
    { hostnames: hostnames ?? null },
  )
  return rows
}

/** The host names of an account's web applications, custom ones first, in the order of their applications. */
export async function listHostNames(
  db: Db,
  ownerId: string,
): Promise<{ id: string; subdomain: string; custom_domain: string | null }[]> {
  return db('apps')
    .where({ owner_id: ownerId, accepting: false })
    .whereNotNull('subdomain')
    .orderBy('created_at')
    .select('id', 'subdomain', 'custom_domain')
}

export interface BalancerMember {
  hostname: string
  id: string
  name: string
  host_id: string
}

/** The members of an account's load balancers: custom names that two or more of its applications have. */
export async function listBalancerMembers(db: Db, ownerId: string): Promise<BalancerMember[]> {
  const { rows } = await db.raw(
    `select custom_domain as hostname, id, name, host_id from apps
      where owner_id = :ownerId and not accepting and custom_domain in (
        select custom_domain from apps where owner_id = :ownerId and not accepting and custom_domain is not null
         group by custom_domain having count(*) > 1)
      order by custom_domain, created_at`,
    { ownerId },
  )
  return rows
}

export type ListedDomain = DomainRow & {
  apps: string[]
  certificate: Pick<CertificateRow, 'issuer' | 'not_after' | 'renew_at' | 'served_at'> | null
}

/** Names for operators: all, those of an account, or one. The most urgent first. */
export async function listDomains(
  db: Db,
  { ownerId, hostname, limit = 1000 }: { ownerId?: string; hostname?: string; limit?: number } = {},
): Promise<ListedDomain[]> {
  const { rows } = await db.raw(
    `select d.*, array(select id from apps where custom_domain = d.hostname order by id) as apps,
            (select jsonb_build_object('issuer', issuer, 'not_after', not_after, 'renew_at', renew_at, 'served_at', served_at)
               from certificates c where c.hostname = d.hostname and c.state = 'current') as certificate
       from domains d
      where (:ownerId::text is null or d.owner_id = :ownerId) and (:hostname::text is null or d.hostname = :hostname)
      order by d.code is null, d.look_at limit :limit`,
    { ownerId: ownerId ?? null, hostname: hostname ?? null, limit },
  )
  return rows.map((row: ListedDomain) => ({ ...row, certificate: row.certificate && withDates(row.certificate) }))
}

const withDates = (certificate: NonNullable<ListedDomain['certificate']>) => ({
  issuer: certificate.issuer,
  not_after: dateOf(certificate.not_after),
  renew_at: dateOf(certificate.renew_at),
  served_at: dateOf(certificate.served_at),
})

const dateOf = (value: Date | string | null): Date | null => (value === null ? null : new Date(value))
