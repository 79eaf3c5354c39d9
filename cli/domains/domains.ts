import type { Command } from 'commander'
import { type Db, transaction } from '../../db/database.ts'
import { findEdgeRoot } from '../../db/databases/authorities.ts'
import { findCertificates } from '../../db/domains/certificates.ts'
import { listDomainEvents } from '../../db/domains/domain-events.ts'
import { type ListedDomain, listDomains } from '../../db/domains/domain-lists.ts'
import type { CertificateRow } from '../../db/domains/domain-rows.ts'
import { releaseDomain, retryNow } from '../../db/domains/domains.ts'
import type { Config } from '../../policy/config.ts'
import { awaitedAnswer } from '../../policy/domains/challenges.ts'
import { storedName } from '../../policy/domains/names.ts'
import { challengeOf, type DnsRecord, domainRecordKey, proofRecords } from '../../policy/domains/records.ts'
import { temporalDomains } from '../../workers/temporal/domains.ts'
import { domainId } from '../../workflows/ids.ts'
import { withInstallation } from '../installation/database.ts'
import { isWoken, sayAsleep, workflowState } from '../ops/lane.ts'
import { operatorName, recordAct } from '../ops/operator.ts'
import { confirm } from '../terminal/confirm.ts'
import { limitFrom } from '../terminal/options.ts'
import { userId } from '../users.ts'
import { type DomainStory, domainExplanation, domainStoryView } from './domain-explanation.ts'
import { certificateTable, certificateViews, domainTable, domainView } from './domain-list.ts'
import type { DomainContext } from './domain-state.ts'

const help = `
Examples:
  berth domains list                        every name, those with a problem first
  berth domains explain shop.example.com    what it is waiting for, why, and what to do
  berth domains retry shop.example.com      check DNS, and ask the authority, now
  berth domains release shop.example.com    remove it from the applications of its account`

/** `berth domains`. */
export function domainsCommand(program: Command): void {
  const domains = program.command('domains').addHelpText('after', help)
  domains
    .command('list', { isDefault: true })
    .description('every host name: owner, applications, state, next check')
    .option('--user <user>', 'only those of an account: id or e-mail address')
    .option('--limit <n>', 'maximum number of entries', '100')
    .option('--json', 'as a JSON array')
    .action(list)
  domains
    .command('explain')
    .description('everything about one host name: its records, certificate and history, and what to do')
    .argument('<name>', 'the host name')
    .option('--json', 'as one JSON object')
    .action(explain)
  domains
    .command('retry')
    .description('check DNS now, and order a certificate now if one is due')
    .argument('<name>', 'the host name')
    .action(retry)
  domains
    .command('release')
    .description('remove a host name from all applications of its account, with its certificate')
    .argument('<name>', 'the host name')
    .option('--yes', 'do not ask for confirmation')
    .action(release)
}

/** `berth certificates`. */
export function certificatesCommand(program: Command): void {
  const certificates = program.command('certificates')
  certificates
    .command('root')
    .description(
      'print the root of EDGE_TLS=local, PEM: clients that trust it accept the certificates of this platform',
    )
    .action(async () =>
      withInstallation(async (_, db) => {
        const root = await findEdgeRoot(db)
        if (!root) throw new Error('There is no root: set EDGE_TLS=local and start Berth to create it.')
        process.stdout.write(root)
      }),
    )
  certificates
    .command('list', { isDefault: true })
    .description('every certificate: issuer, expiry, renewal, and why a renewal fails')
    .option('--json', 'as a JSON array')
    .action(async ({ json }: { json?: boolean }) =>
      withInstallation(async ({ config }, db) => {
        const domains = await listDomains(db, { limit: 100_000 })
        const context = contextOf(config)
        console.log(json ? JSON.stringify(certificateViews(domains, context)) : certificateTable(domains, context))
      }),
    )
}

async function list({ user, limit, json }: { user?: string; limit: string; json?: boolean }): Promise<void> {
  const max = limitFrom(limit)
  await withInstallation(async ({ config }, db) => {
    const ownerId = user === undefined ? undefined : await userId(db, user)
    const domains = await listDomains(db, { limit: max, ...(ownerId && { ownerId }) })
    const context = contextOf(config)
    console.log(json ? JSON.stringify(domains.map(one => domainView(one, context))) : domainTable(domains, context))
  })
}

async function explain(name: string, { json }: { json?: boolean }): Promise<void> {
  await withInstallation(async ({ config }, db) => {
    const story = await readStory(config, db, await domainFrom(db, name))
    const context = contextOf(config)
    console.log(json ? JSON.stringify(domainStoryView(story, context)) : domainExplanation(story, context))
  })
}

async function retry(name: string): Promise<void> {
  await withInstallation(async ({ config }, db) => {
    const { hostname } = await domainFrom(db, name)
    await transaction(db, async trx => {
      await retryNow(trx, hostname)
      await recordAct(trx, { action: 'domains.retry', accountId: null, resource: hostname })
    })
    const woken = await wake(config, hostname)
    if (!woken) sayAsleep()
    console.log(`Checking ${hostname} now. See the result with: berth domains explain ${hostname}`)
  })
}

async function release(name: string, { yes }: { yes?: boolean }): Promise<void> {
  await withInstallation(async ({ config }, db) => {
    const { hostname, owner_id, apps } = await domainFrom(db, name)
    if (!owner_id) throw new Error(`${hostname} is a name of the platform itself: change BERTH_DOMAIN or APPS_DOMAIN.`)
    await confirm(
      `${hostname} will be removed from ${apps.length} application(s) of account ${owner_id} and no longer served.`,
      yes,
    )
    await transaction(db, async trx => {
      await releaseDomain(trx, hostname, `released by ${operatorName()}`)
      await recordAct(trx, { action: 'domains.release', accountId: owner_id, resource: hostname })
    })
    await wake(config, hostname)
    console.log(`${hostname} is released. Any account can set it again.`)
  })
}

const contextOf = ({ edge }: Config): DomainContext => ({ now: new Date(), secured: edge.tls !== null })

async function domainFrom(db: Db, name: string): Promise<ListedDomain> {
  const hostname = storedName(name) ?? name.trim()
  const [domain] = await listDomains(db, { hostname })
  if (!domain) throw new Error(`There is no domain "${hostname}". See: berth domains list`)
  return domain
}

async function readStory(config: Config, db: Db, domain: ListedDomain): Promise<DomainStory> {
  const { hostname, owner_id: accountId } = domain
  const key = domainRecordKey(config.masterKey)
  const { ordered } = await findCertificates(db, hostname)
  return {
    domain,
    challenge: awaitedChallenge(config, key, domain, ordered),
    ordered,
    records: accountId ? proofRecords(key, { accountId, hostname }, config.appsDomain) : null,
    events: await listDomainEvents(db, hostname),
    workflow: await workflowOf(config, hostname),
  }
}

/** The record that an order waits for; null: none is waited for. */
function awaitedChallenge(
  { domains: { acmeDnsDomain } }: Config,
  key: Buffer,
  domain: ListedDomain,
  ordered: CertificateRow | undefined,
): DnsRecord | null {
  const answer = ordered && awaitedAnswer(ordered, domain)
  if (!answer) return null
  const challenge = challengeOf(domain, answer, { key, acmeDnsDomain })
  return challenge && !challenge.isSeen ? challenge.record : null
}

async function workflowOf(config: Config, hostname: string): Promise<DomainStory['workflow']> {
  const { workflowId: id, url, status } = await workflowState(config, domainId(hostname))
  return { id, url, status: status === 'unknown' ? 'unknown: Temporal does not answer' : status }
}

/** False if Temporal does not answer; the relay then wakes it. */
const wake = (config: Config, hostname: string): Promise<boolean> =>
  isWoken(config, client => temporalDomains(client, config).wake(hostname))
