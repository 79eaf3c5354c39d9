import { z } from 'zod'
import { findCertificates } from '../../../db/domains/certificates.ts'
import { findDomain } from '../../../db/domains/domains.ts'
import { awaitedAnswer } from '../../../policy/domains/challenges.ts'
import { challengeOf, type DomainStanding, proofRecords, shownRecords } from '../../../policy/domains/records.ts'
import { CodedError } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

/** Contract 4.28: the records that the owner sets at the domain's DNS provider, and whether they were seen. */
export const listDnsRecords = endpoint({
  name: 'apps.network.dns',
  method: 'GET',
  path: '/v2/apps/{appId}/network/dns',
  summary: 'Show the DNS records of the custom domain of an application',
  auth: { scope: 'apps:read', permission: 'dns' },
  response: z.array(
    z.object({
      type: z.enum(['txt', 'cname']),
      name: z.string(),
      value: z.string(),
      status: z.enum(['pending', 'pending_validation', 'active']),
    }),
  ),
  errors: ['NO_CUSTOM_DOMAIN'],
  async handle({ app }, services) {
    const { custom_domain: hostname } = app
    if (!hostname) throw new CodedError('NO_CUSTOM_DOMAIN')
    return services.dnsRecords.of(recordsKey(app.id, hostname), async () => {
      const standing = await standingOf({ accountId: app.owner_id, hostname }, services)
      return standing ? shownRecords(standing) : []
    })
  },
})

/** Of an application and its domain: the records of one that it had before are not shown for the next. */
export const recordsKey = (appId: string, hostname: string): string => `${appId} ${hostname}`

/** Null between a release and the next request, and once another account has the domain: its records belong to that account. */
async function standingOf(
  owner: { accountId: string; hostname: string },
  { db, config, domainRecords: { key } }: Services,
): Promise<DomainStanding | null> {
  const { accountId, hostname } = owner
  const domain = await findDomain(db, hostname)
  if (domain?.owner_id !== accountId) return null
  const { current, ordered } = await findCertificates(db, hostname)
  return {
    proof: proofRecords(key, owner, config.appsDomain),
    txtSeen: domain.txt_seen,
    points: domain.points,
    isServed: domain.proved_at !== null && (config.edge.tls === null || Boolean(current?.served_at)),
    challenge: challengeOf(domain, ordered && awaitedAnswer(ordered, domain), {
      key,
      acmeDnsDomain: config.domains.acmeDnsDomain,
    }),
  }
}
