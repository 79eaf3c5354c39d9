import { type ServedSettings, SettingsRefused } from '../../activities/edge/port.ts'
import { findAppSettings, listAppSettings, type ServedAppSettings } from '../../db/domains/app-settings.ts'
import { type AppSettings, hstsHeader } from '../../policy/network/app-settings.ts'
import { type EntryRefusal, equalize } from './equalize.ts'
import { hostOf, subdomainsOf, type Tables } from './route-table.ts'

/** Makes the proxy's settings of all applications, or of those at `hosts`, those of Postgres; resolves to what the proxy refused. */
export async function syncSettings(tables: Tables, hosts?: readonly string[]): Promise<EntryRefusal[]> {
  const { db, edge } = tables
  const stored = await listAppSettings(db, hosts && subdomainsOf(hosts, tables))
  const byHost = new Map(stored.map(row => [hostOf(row.subdomain, tables), row]))
  const { refused } = await equalize({
    hosts,
    wanted: new Map([...byHost].map(([host, { version }]) => [host, version])),
    list: async some => new Map((await edge.listSettings(some)).map(({ host, version }) => [host, version])),
    async set(host) {
      const row = byHost.get(host)!
      const found = await findAppSettings(db, row.id)
      if (found) await edge.setSettings(servedSettings(host, row, found))
    },
    remove: host => edge.removeSettings(host),
    Refused: SettingsRefused,
  })
  return refused
}

function servedSettings(
  host: string,
  { id: appId }: ServedAppSettings,
  { version, settings }: { version: string; settings: AppSettings },
): ServedSettings {
  return {
    ...{ host, appId, version },
    minTls: settings.min_tls,
    hsts: hstsHeader(settings.hsts),
    requestsPerMinute: settings.requests_per_minute || null,
    blockedNetworks: settings.blocked_networks,
    maintenance: settings.maintenance,
    pages: { error: settings.error_page || null, maintenance: settings.maintenance_page || null },
  }
}
