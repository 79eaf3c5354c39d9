import { lookup } from 'node:dns/promises'
import type { Db } from '../../../db/database.ts'
import type { DatabaseRow } from '../../../db/databases/databases.ts'
import { listHosts } from '../../../db/hosts/hosts.ts'
import { withTimeout } from '../../../lib/async/timeout.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { cachedSeconds } from '../../../policy/cached-answers.ts'
import type { Config } from '../../../policy/config.ts'
import {
  type DatabaseAddress,
  databaseDomain,
  databaseHostname,
  leadsToHost,
  publishedAddress,
} from '../../../policy/databases/connection-url.ts'
import { nameLookupMs } from '../../../policy/timeouts.ts'

/** The addresses that a host name has on this machine; none when it leads nowhere. Never rejects. */
export type ResolvesName = (hostname: string) => Promise<readonly string[]>

const lookupAll = async (hostname: string): Promise<string[]> =>
  (await lookup(hostname, { all: true })).map(({ address }) => address)

/** Looks names up as every program of this machine does. One answer counts for all names of a domain, because its record is a wildcard. */
export function resolvesNames(
  look: (hostname: string) => Promise<readonly string[]> = lookupAll,
  deadlineMs: number = nameLookupMs,
): ResolvesName {
  const domains = new TtlCache<readonly string[]>(cachedSeconds.databaseNames)
  const resolves = (hostname: string) =>
    withTimeout(look(hostname), deadlineMs, () => new Error('no answer in time')).catch(() => [])
  return hostname => domains.of(hostname.slice(hostname.indexOf('.') + 1), () => resolves(hostname))
}

/** How clients reach a database (contract 12.5): by its name, or by the address of its host where the name does not lead to that. */
export async function addressOf(
  { id, host_id: hostId, port }: Pick<DatabaseRow, 'id' | 'host_id' | 'port'>,
  { db, config, resolvesName }: { db: Db; config: Pick<Config, 'databases'>; resolvesName: ResolvesName },
): Promise<DatabaseAddress> {
  const hosts = (await listHosts(db)).filter(({ forgotten_at: forgottenAt }) => !forgottenAt)
  const host = hosts.find(({ id }) => id === hostId)
  const hostname = databaseHostname(id, databaseDomain(host, config.databases.domain))
  if (!host || leadsToHost(host, hosts, await resolvesName(hostname))) return { host: hostname, port }
  return { host: publishedAddress(host, hosts), port }
}
