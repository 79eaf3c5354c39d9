import { includesCustomDomains, type Plan, type Plans, planOf } from '../../policy/accounts/plans.ts'
import { maxMembers } from '../../policy/edge/names.ts'
import { CodedError } from '../../policy/errors.ts'
import type { UserRow } from '../accounts/accounts.ts'
import { queueMail } from '../accounts/mails.ts'
import type { AppRow } from '../apps/apps.ts'
import { type Db, transaction } from '../database.ts'
import { deleteDomain } from './domain-delays.ts'
import { recordDomainEvent } from './domain-events.ts'
import type { DomainRow } from './domain-rows.ts'

export async function findDomain(db: Db, hostname: string): Promise<DomainRow | undefined> {
  return db('domains').where({ hostname }).first()
}

export interface DomainAssignment {
  app: Pick<AppRow, 'id' | 'owner_id'>
  /** Canonical (policy/domains/names.ts). */
  hostname: string
  plans: Plans
  /** DNS has shown that the name belongs to this account, and no longer to that one, as its row was then: what it takes depends on that. */
  takeOver?: { from: string; isProved: boolean } | undefined
}

/** The plan of an account. Throws UPGRADE_REQUIRED when it has no custom domains. */
export function planWithDomains(plans: Plans, owner: UserRow): Plan {
  const { plan } = planOf(plans, owner, new Date())
  if (includesCustomDomains(plan)) return plan
  throw new CodedError('UPGRADE_REQUIRED', 'Custom domains come with Standard and higher plans.')
}

/**
 * Sets the custom domain of an application, and releases the one it had. The same name on several applications of one account is a group
 * of its load balancer. Throws UPGRADE_REQUIRED, LOAD_BALANCER_LIMIT_REACHED, APP_NOT_FOUND, and DOMAIN_ALREADY_EXISTS while another
 * account holds the name.
 */
export async function assignDomain(db: Db, { app, hostname, plans, takeOver }: DomainAssignment): Promise<void> {
  await transaction(db, async trx => {
    const owner: UserRow = await trx('users').where({ id: app.owner_id }).forUpdate().first()
    const plan = planWithDomains(plans, owner)
    const before = await lockApp(trx, app.id, hostname)
    await trx('domains').insert({ hostname, owner_id: owner.id }).onConflict('hostname').ignore()
    const held: DomainRow = await trx('domains').where({ hostname }).forUpdate().first()
    if (held.owner_id !== owner.id) {
      const isAsDecided = takeOver?.from === held.owner_id && takeOver.isProved === (held.proved_at !== null)
      if (!held.owner_id || !isAsDecided) throw new CodedError('DOMAIN_ALREADY_EXISTS')
      await takeFrom(trx, held)
      await trx('domains').insert({ hostname, owner_id: owner.id })
    }
    await trx('apps').where({ id: app.id }).update({ custom_domain: hostname })
    if (before.custom_domain !== hostname) {
      await demandGroup(trx, owner.id, hostname, plan.balancerGroups)
      await recordDomainEvent(trx, hostname, `set on application ${app.id}`)
      if (before.custom_domain) await releaseUnused(trx, before.custom_domain)
    }
    await lookNow(trx, hostname)
  })
}

/** Takes the custom domain off an application; its last one takes the name along. Resolves to the name it had. */
export async function unassignDomain(db: Db, appId: string): Promise<string | null> {
  return transaction(db, async trx => {
    const before = await lockApp(trx, appId)
    if (!before.custom_domain) return null
    await trx('apps').where({ id: appId }).update({ custom_domain: null })
    await releaseUnused(trx, before.custom_domain)
    return before.custom_domain
  })
}

/** Deletes a name of an account that no application has any more, with its certificates. False: one has it. */
export async function releaseUnused(trx: Db, hostname: string): Promise<boolean> {
  const isDeleted = await deleteDomain(trx, hostname, { unused: true })
  if (isDeleted) await recordDomainEvent(trx, hostname, 'released: no application has it any more')
  return isDeleted
}

/** Releases a name from all its applications, for operators. Missing is success. */
export async function releaseDomain(trx: Db, hostname: string, why: string): Promise<void> {
  await trx('apps').where({ custom_domain: hostname }).orderBy('id').forNoKeyUpdate().select('id')
  if (await deleteDomain(trx, hostname)) await recordDomainEvent(trx, hostname, why)
}

/** Makes the workflow of a name due now. When a certificate is ordered again is the authority's to say, however often an owner asks. */
export async function lookNow(trx: Db, hostname: string): Promise<void> {
  await trx('domains').where({ hostname }).update({ look_at: trx.fn.now(), looks: 0 })
}

/** Makes the workflow of a name due now, and lets it order a certificate, for operators. */
export async function retryNow(trx: Db, hostname: string): Promise<void> {
  await lookNow(trx, hostname)
  await trx('domains')
    .where({ hostname })
    .update({ order_at: trx.raw('least(order_at, now())') })
}

/** In the order of ids: two accounts that exchange a name never wait for each other in a circle. Throws APP_NOT_FOUND. */
async function lockApp(trx: Db, appId: string, hostname?: string): Promise<AppRow> {
  const apps: AppRow[] = await trx('apps')
    .where({ id: appId })
    .modify(query => hostname !== undefined && query.orWhere({ custom_domain: hostname }))
    .orderBy('id')
    .forNoKeyUpdate()
  const app = apps.find(({ id }) => id === appId)
  if (!app || app.desired_state === 'deleted') throw new CodedError('APP_NOT_FOUND')
  return app
}

/** The row goes, and with it the name of the other account's applications and its certificates. */
async function takeFrom(trx: Db, { hostname, owner_id }: DomainRow): Promise<void> {
  await deleteDomain(trx, hostname)
  await recordDomainEvent(trx, hostname, `taken over from account ${owner_id} by proof`)
  await trx('audit').insert({
    ...{ account_id: owner_id, actor: 'platform', action: 'apps.network.custom.lost', resource: hostname },
    result: 'success',
  })
  await queueMail(trx, { userId: owner_id!, template: 'domain-taken', fields: { hostname } })
}

/** The load balancers of an account: its domains that several applications share. */
export async function listGroups(db: Db, ownerId: string): Promise<{ hostname: string; members: number }[]> {
  return db('apps')
    .where({ owner_id: ownerId })
    .whereNotNull('custom_domain')
    .groupBy('custom_domain')
    .havingRaw('count(*) > 1')
    .select('custom_domain as hostname', db.raw('count(*)::int as members'))
}

async function demandGroup(trx: Db, ownerId: string, hostname: string, limit: number): Promise<void> {
  const groups = await listGroups(trx, ownerId)
  const own = groups.find(group => group.hostname === hostname)
  if (own && own.members > maxMembers)
    throw new CodedError(
      'LOAD_BALANCER_LIMIT_REACHED',
      `At most ${maxMembers} applications share a domain, and ${hostname} has as many.`,
    )
  const isNew = own?.members === 2
  if (isNew && groups.length > limit)
    throw new CodedError(
      'LOAD_BALANCER_LIMIT_REACHED',
      `The plan has ${limit} load balancers, and ${groups.length - 1} are in use.`,
    )
}
