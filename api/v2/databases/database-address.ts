import { lookup } from 'node:dns/promises'
import type { Db } from '../../../db/database.ts'
import type { DatabaseRow } from '../../../db/databases/databases.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { withTimeout } from '../../../lib/async/timeout.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { cachedSeconds } from '../../../policy/cached-answers.ts'
import type { Config } from '../../../policy/config.ts'
import { type DatabaseAddress, databaseHostname } from '../../../policy/databases/connection-url.ts'
import { nameLookupMs } from '../../../policy/timeouts.ts'

/** Whether a host name leads anywhere on this machine. Never rejects. */
export type ResolvesName = (hostname: string) => Promise<boolean>

/** Looks names up as every program of this machine does. One answer counts for all names of a domain, because its record is a wildcard. */
export function resolvesNames(
  look: (hostname: string) => Promise<unknown> = lookup,
  deadlineMs: number = nameLookupMs,
): ResolvesName {
  const domains = new TtlCache<boolean>(cachedSeconds.databaseNames)
  const resolves = (hostname: string) =>
    withTimeout(look(hostname), deadlineMs, () => new Error('no answer in time')).then(
      () => true,
      () => false,
    )
  return hostname => domains.of(hostname.slice(hostname.indexOf('.') + 1), () => resolves(hostname))
}

/** How clients reach a database (contract 12.5): by its name, or by the address of its host where the name leads nowhere. */
export async function addressOf(
  { id, host_id: hostId, port }: DatabaseRow,
  { db, config, resolvesName }: { db: Db; config: Pick<Config, 'databases'>; resolvesName: ResolvesName },
): Promise<DatabaseAddress> {
  const hostname = databaseHostname(id, config.databases.domain)
  if (await resolvesName(hostname)) return { host: hostname, port }
  const host = await findHost(db, hostId)
  return { host: host?.address ?? hostname, port }
}
