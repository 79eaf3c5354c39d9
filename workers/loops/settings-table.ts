import { type ServedSettings, SettingsRefused } from '../../activities/edge/port.ts'
import { findAppSettings, listAppSettings, type ServedAppSettings } from '../../db/domains/app-settings.ts'
import { type AppSettings, hstsHeader } from '../../policy/network/app-settings.ts'
import { type EntryRefusal, reconcileTable } from './reconcile-table.ts'
import { hostOf, subdomainsOf, type Tables } from './route-table.ts'

/** Makes the proxy's settings of all applications, or of those at `hosts`, those of Postgres; resolves to what the proxy refused. */
export async function syncSettings(tables: Tables, hosts?: readonly string[]): Promise<EntryRefusal[]> {
  const { db, edge } = tables
  const stored = await listAppSettings(db, hosts && subdomainsOf(hosts, tables))
  const byHost = new Map(stored.map(row => [hostOf(row.subdomain, tables), row]))
  const { refused } = await reconcileTable({
    hosts,
    target: new Map([...byHost].map(([host, { version }]) => [host, version])),
    list: async some => new Map((await edge.listSettings(some)).map(({ host, version }) => [host, version])),
    set: host => setCurrent(tables, host, byHost.get(host)!),
    remove: host => edge.removeSettings(host),
    Refused: SettingsRefused,
  })
  return refused
}

/** Sets what is stored, and looks again: another worker may have set a later version meanwhile. */
async function setCurrent(tables: Tables, host: string, row: ServedAppSettings): Promise<void> {
  const { db, edge } = tables
  const settings = await findAppSettings(db, row.id)
  if (!settings) return edge.removeSettings(host)
  await edge.setSettings(servedSettings(host, row, settings))
  const now = await findAppSettings(db, row.id)
  if (now?.version !== settings.version) return setCurrent(tables, host, row)
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
