import { dayMs, hourMs } from '../../lib/time.ts'
import { type OrderLimits, orderLimits } from '../../policy/domains/order-limits.ts'
import { domainTimes, isLostProofMailDue, lookDelayMs } from '../../policy/domains/times.ts'
import { queueMail } from '../accounts/mails.ts'
import { type Db, transaction } from '../database.ts'
import { takeDelay } from './domain-delays.ts'
import { recordDomainEvent } from './domain-events.ts'
import { type DomainClaim, type DomainRow, isSameClaim } from './domain-rows.ts'
import { releaseUnused } from './domains.ts'
import { notServed } from './served-certificates.ts'

const lostDays = domainTimes.lostProofMailMs / dayMs

/** What a look at DNS has shown. Null: the name servers did not say, and what was seen before stays. */
export interface DomainLook {
  txtSeen: boolean | null
  cnameSeen: boolean | null
  points: boolean | null
  delegated: boolean | null
  /** Why the name does not go on, for its owner; null: nothing is missing. */
  problem: { code: string; message: string } | null
}

/**
 * Records a look at a name, and what follows from it: a first proof, the loss of one, and the end of a name that was not proved in time,
 * or that no application has. Null: the name was removed, also when somebody has claimed it since `looked` was read, whose records were not
 * looked for. The platform's own names need no proof.
 */
export async function recordLook(
  db: Db,
  looked: DomainClaim,
  look: DomainLook,
  now: Date = new Date(),
): Promise<DomainRow | null> {
  const { hostname } = looked
  return transaction(db, async trx => {
    const row: DomainRow | undefined = await trx('domains').where({ hostname }).forUpdate().first()
    if (!row || !isSameClaim(row, looked) || (await releaseUnused(trx, hostname))) return null
    const txt_seen = look.txtSeen ?? row.txt_seen
    const cname_seen = look.cnameSeen ?? row.cname_seen
    const isSeen = row.owner_id === null || txt_seen || cname_seen
    if (!isSeen && !row.proved_at && lookDelayMs(now.getTime() - row.created_at.getTime()) === null) {
      await lapse(trx, row)
      return null
    }
    const changes: Partial<DomainRow> = {
      ...{ txt_seen, cname_seen, looked_at: now, looks: row.looks + 1 },
      points: look.points ?? row.points,
      delegated: look.delegated ?? row.delegated,
      // Why an order waits stays recorded until it is tried again, and that a certificate is not served until it is.
      ...(row.orders_failed === 0 &&
        row.order_at <= now &&
        row.code !== notServed && { code: look.problem?.code ?? null, message: look.problem?.message ?? null }),
      ...(isSeen ? await seen(trx, row, now) : row.proved_at ? await unseen(trx, row, now) : {}),
    }
    const [changed] = await trx('domains').where({ hostname }).update(changes).returning('*')
    return changed
  })
}

async function seen(trx: Db, row: DomainRow, now: Date): Promise<Partial<DomainRow>> {
  const isFirst = row.proved_at === null
  if (isFirst) await recordDomainEvent(trx, row.hostname, 'proved')
  else if (row.unproved_since) await recordDomainEvent(trx, row.hostname, 'its record is there again')
  const delay = isFirst ? await takeDelay(trx, row) : undefined
  return { proved_at: row.proved_at ?? now, unproved_since: null, loss_mailed_at: null, ...delay }
}

/** A name goes on being served: DNS fails often. */
async function unseen(trx: Db, row: DomainRow, now: Date): Promise<Partial<DomainRow>> {
  const { hostname, owner_id } = row
  const lostAt = row.unproved_since ?? now
  if (!row.unproved_since) await recordDomainEvent(trx, hostname, 'no record of it is in DNS any more; it is served on')
  const isDue = isLostProofMailDue({ lostAt, mailedAt: row.loss_mailed_at }, now)
  if (isDue && owner_id)
    await queueMail(trx, { userId: owner_id, template: 'domain-unproved', fields: { hostname, days: lostDays } })
  return { unproved_since: lostAt, ...(isDue && { loss_mailed_at: now }) }
}

async function lapse(trx: Db, { hostname, owner_id }: DomainRow): Promise<void> {
  await trx('domains').where({ hostname }).delete()
  const hours = domainTimes.looks.at(-1)!.untilMs / hourMs
  await recordDomainEvent(trx, hostname, `lapsed: no record proved it within ${hours} hours`)
  if (owner_id) await queueMail(trx, { userId: owner_id, template: 'domain-lapsed', fields: { hostname, hours } })
}

/** Records when the workflow of a name is due again, unless another look was requested since this one began, when it was due at `dueAt`. */
export async function recordNextLook(db: Db, hostname: string, at: Date, dueAt: Date): Promise<void> {
  // A Date has milliseconds only.
  await db('domains')
    .where({ hostname })
    .whereRaw(`date_trunc('milliseconds', look_at) = ?`, [dueAt])
    .update({ look_at: at })
}

/** Queues the warnings about a certificate that ends and could not be renewed, each once. */
export async function warnOfExpiry(
  db: Db,
  { hostname, due, endsAt, reason, now }: { hostname: string; due: number; endsAt: Date; reason: string; now: Date },
): Promise<void> {
  await transaction(db, async trx => {
    const row: DomainRow | undefined = await trx('domains').where({ hostname }).forUpdate().first()
    if (!row || row.expiry_mails >= due) return
    await trx('domains').where({ hostname }).update({ expiry_mails: due })
    await recordDomainEvent(trx, hostname, `its certificate expires ${endsAt.toISOString()} and was not renewed`)
    if (!row.owner_id) return
    const fields = { hostname, days: Math.max(0, Math.floor((endsAt.getTime() - now.getTime()) / dayMs)), reason }
    await queueMail(trx, { userId: row.owner_id, template: 'certificate-failing', fields })
  })
}

/**
 * Makes proved names due that have no certificate of this authority: as many as may be ordered in a window, a second apart, and as many in
 * each window after it. One that waits after a failure, or for its order there, is looked at when it was to be.
 */
export async function lookForCertificates(db: Db, authority: string, limits: OrderLimits = orderLimits): Promise<void> {
  await db.raw(
    `with wanting as (
       select hostname, created_at from domains
        where proved_at is not null and order_at <= now()
          and not exists (select 1 from certificates c where c.hostname = domains.hostname
                and c.authority = :authority and (c.state = 'current' or c.order_url is not null))
          for update skip locked  -- somebody changes it now, and no two wait for each other
     ), placed as (
       select hostname, row_number() over (order by created_at, hostname) - 1 as place from wanting
     ), due as (
       select hostname, now() + make_interval(secs => place / :perWindow::int * :windowSeconds::int + place % :perWindow::int) as at
         from placed
     )
     update domains set look_at = due.at from due where domains.hostname = due.hostname and look_at > due.at`,
    { authority, perWindow: limits.perWindow, windowSeconds: limits.windowSeconds },
  )
}

export interface OverdueDomain {
  hostname: string
  /** Since when it is due, in seconds. */
  seconds: number
}

/** Names that have been due for `seconds` without a look, except some; up to 500. */
export async function listOverdueDomains(
  db: Db,
  seconds: number,
  except: readonly string[] = [],
): Promise<OverdueDomain[]> {
  const { rows } = await db.raw(
    `select hostname, extract(epoch from now() - look_at)::float8 as seconds
       from domains
      where look_at < now() - make_interval(secs => :seconds) and hostname <> all(:except::text[])
      order by look_at limit 500`,
    { seconds, except },
  )
  return rows
}

/** Adds the platform's own names that are missing, and removes those that it has no more. Resolves to those that were added. */
export async function keepPlatformNames(db: Db, hostnames: readonly string[]): Promise<string[]> {
  await db('domains').whereNull('owner_id').whereNotIn('hostname', hostnames).delete()
  const { rows } = await db.raw(
    `insert into domains (hostname, proved_at) select name, now() from unnest(:hostnames::text[]) as name
     on conflict (hostname) do nothing returning hostname`,
    { hostnames },
  )
  return rows.map(({ hostname }: { hostname: string }) => hostname)
}
