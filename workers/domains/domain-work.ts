import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { makeAuthority } from '../../activities/certificates/authority.ts'
import { localAuthority } from '../../activities/certificates/local.ts'
import type { CertificateAuthority } from '../../activities/certificates/port.ts'
import { hostReader } from '../../activities/dns/probe.ts'
import { resolverDns } from '../../activities/dns/resolver.ts'
import { domainSight } from '../../activities/domains/domain-sight.ts'
import type { DomainParts } from '../../activities/domains/domain-steps.ts'
import type { Db } from '../../db/database.ts'
import { ensureEdgeRoot } from '../../db/databases/authorities.ts'
import { acmeAccounts } from '../../db/domains/acme-accounts.ts'
import { type DnsChallenge, listDnsChallenges } from '../../db/domains/certificates.ts'
import { listSurfaceNames } from '../../edge/surfaces.ts'
import { TtlCache } from '../../lib/async/ttl-cache.ts'
import type { Config } from '../../policy/config.ts'
import { nameServerRules } from '../../policy/domains/name-server-rules.ts'
import { platformDomains } from '../../policy/domains/names.ts'
import { ownAuthority } from '../../policy/domains/order-limits.ts'
import { delegationOf, domainRecordKey } from '../../policy/domains/records.ts'
import { deriveKey } from '../../policy/keys.ts'
import { withCrashPoints } from '../crash-points.ts'
import type { AnswerSources } from '../loops/domain-rounds.ts'
import { type NameServer, startNameServer } from '../name-server/name-server.ts'

/** What host names need from the settings: the steps of their workflow, what proxies answer, and the platform's own names. */
export async function domainWork(config: Config, db: Db) {
  const { masterKey, appsDomain, sealKeys: keys, domains } = config
  const { publicAddresses, publicPort, acmeDnsDomain } = domains
  const authority = await authorityOf(config, db)
  const dns = withCrashPoints('dns', resolverDns(domains.dnsServers))
  const key = domainRecordKey(masterKey)
  const edgeProof = deriveKey(masterKey, 'edge-proof/1').toString('base64url')
  const parts: DomainParts = {
    db,
    keys,
    authority,
    sight: domainSight({
      ...{ dns, edgeProof, publicAddresses, appsDomain, acmeDnsDomain, key },
      ownDomains: platformDomains(config),
      read: hostReader({ dns, publicAddresses, port: publicPort }),
    }),
  }
  return {
    parts,

    answers: {
      'acme-challenge': async () => (await authority?.issues.thumbprint()) ?? null,
      'berth-check': async () => edgeProof,
    } satisfies AnswerSources,

    /** Answers challenges that are delegated to `ACME_DNS_DOMAIN`; null: there is no such domain. */
    async startNameServer(log: Logger): Promise<NameServer | null> {
      if (!authority || !acmeDnsDomain) return null
      const texts = challengeTexts(db, key, acmeDnsDomain)
      return startNameServer({ name: acmeDnsDomain, texts, address: config.edge.bind, port: domains.dnsPort, log })
    },

    /** Names that get a certificate without an account. */
    platformNames: authority ? [`*.${appsDomain}`, ...listSurfaceNames(config.edge)] : [],
  }
}

/** The answers to challenges by the label at which they are asked for, read at most once in `textsMs`. */
function challengeTexts(db: Db, key: Buffer, zone: string): (name: string) => Promise<readonly string[]> {
  const cache = new TtlCache<Map<string, string[]>>(nameServerRules.textsMs / 1000)
  return async name => {
    const texts = await cache.of('all', async () => textsByName(await listDnsChallenges(db), key, zone))
    return texts.get(name) ?? []
  }
}

/** The answers that wait at each name of the zone: a wildcard and its parent have one. */
export function textsByName(waiting: readonly DnsChallenge[], key: Buffer, zone: string): Map<string, string[]> {
  const texts = new Map<string, string[]>()
  for (const challenge of waiting) {
    const { value: name } = delegationOf(key, challenge, zone)
    texts.set(name, [...(texts.get(name) ?? []), challenge.value])
  }
  return texts
}

/** Throws an Error that names the setting which is missing. */
async function authorityOf(
  { edge, domains, sealKeys }: Config,
  db: Db,
): Promise<{ name: string; issues: CertificateAuthority } | null> {
  if (!edge.tls) return null
  if (edge.tls.authority === 'local') {
    const root = () => ensureEdgeRoot(db, sealKeys, () => makeAuthority(new Date(), 'domains'))
    return { name: ownAuthority, issues: withCrashPoints('authority', localAuthority(root)) }
  }
  const { acme } = domains
  if (!acme) throw new Error('EDGE_TLS=acme requires the setting ACME_DIRECTORY_URL.')
  const ca = await caOf(acme.caBundle)
  // Loaded on demand: its library is a twentieth of the start of a worker.
  const { acmeAuthority } = await import('../../activities/certificates/acme/acme.ts')
  const issues = acmeAuthority({ settings: acme, ca, accounts: acmeAccounts(db, sealKeys) })
  return { name: acme.directoryUrl, issues: withCrashPoints('authority', issues) }
}

/** PEM, or the path of a file of it. */
async function caOf(bundle: string | null): Promise<string | null> {
  if (bundle === null || bundle.startsWith('-----BEGIN')) return bundle
  try {
    return await readFile(bundle, 'utf8')
  } catch (error) {
    throw new Error(`The file that the setting ACME_CA_BUNDLE names cannot be read: ${(error as Error).message}`)
  }
}
