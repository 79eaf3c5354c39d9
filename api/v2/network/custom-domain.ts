import { z } from 'zod'
import { findUser } from '../../../db/accounts/accounts.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import {
  assignDomain,
  type DomainAssignment,
  findDomain,
  planWithDomains,
  unassignDomain,
} from '../../../db/domains/domains.ts'
import { customHostname, platformDomains } from '../../../policy/domains/names.ts'
import { proofRecords } from '../../../policy/domains/records.ts'
import { firstAnswer, takeOverAnswer, takeOverMessage } from '../../../policy/domains/take-over.ts'
import { CodedError } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { recordsKey } from './dns-records.ts'

/** Takes the domain off the application. */
const remove = '@'

/** Contract 4.25: the name is served once its owner has proved it in DNS. */
export const setCustomDomain = endpoint({
  name: 'apps.network.custom',
  method: 'POST',
  path: '/v2/apps/{appId}/network/custom',
  summary: 'Set or remove the custom domain of an application',
  auth: { scope: 'apps:write', permission: 'custom_domain' },
  body: z.object({ custom: z.string({ error: 'INVALID_DOMAIN' }) }),
  errors: [
    ...(['INVALID_DOMAIN', 'RESERVED_DOMAIN', 'UPGRADE_REQUIRED', 'LOAD_BALANCER_LIMIT_REACHED'] as const),
    ...(['DOMAIN_ALREADY_EXISTS', 'DNS_FAILED'] as const),
  ],
  async handle({ app, body: { custom } }, services) {
    const { db, plans, config, dnsRecords } = services
    const forget = (hostname: string | null) => hostname && dnsRecords.delete(recordsKey(app.id, hostname))
    if (custom.trim() === remove) {
      const released = await unassignDomain(db, app.id)
      forget(released)
      if (released) wake(services, released)
      return
    }
    const hostname = customHostname(custom, platformDomains(config))
    if (!app.subdomain)
      throw new CodedError('INVALID_DOMAIN', 'Only web applications have domains: this one has no SUBDOMAIN.')
    const owner = await findUser(db, app.owner_id)
    if (owner) planWithDomains(plans, owner)
    const takeOver = await takeOverOf(app, hostname, services)
    await assignDomain(db, { app, hostname, plans, takeOver })
    forget(hostname)
    wake(services, hostname)
    if (app.custom_domain && app.custom_domain !== hostname) wake(services, app.custom_domain)
  },
})

/** Asks DNS when another account has the name. Throws DOMAIN_ALREADY_EXISTS unless it shows that the name has changed hands. */
async function takeOverOf(
  app: AppRow,
  hostname: string,
  { db, config, domainRecords }: Services,
): Promise<DomainAssignment['takeOver']> {
  const held = await findDomain(db, hostname)
  const holder = held?.owner_id ? { accountId: held.owner_id, isProved: held.proved_at !== null } : null
  if (!holder || firstAnswer({ accountId: app.owner_id, holder }) !== 'ask DNS') return undefined
  const { asking, holding } = await domainRecords.sightings(hostname, app.owner_id, holder.accountId)
  const answer = takeOverAnswer(holder, asking, holding)
  if (answer === 'dns failed') throw new CodedError('DNS_FAILED')
  if (answer === 'take over') return { from: holder.accountId, isProved: holder.isProved }
  const { txt } = proofRecords(domainRecords.key, { accountId: app.owner_id, hostname }, config.appsDomain)
  throw new CodedError('DOMAIN_ALREADY_EXISTS', takeOverMessage(txt))
}

/** A wake-up may fail: the row is stored, and the relay finds it. */
function wake({ domains, log }: Services, hostname: string): void {
  domains
    .wake(hostname)
    .catch(err => log.warn({ err, hostname }, 'the wake-up of a domain failed; the relay repeats it'))
}
