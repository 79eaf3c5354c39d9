import type { NetworkSettings } from '../../policy/domains/network-settings.ts'
import { type Db, transaction } from '../database.ts'
import { wakeEdges } from '../domains/edges.ts'

/** What the owner of an application has set; empty = nothing. */
export async function readNetworkSettings(db: Db, appId: string): Promise<NetworkSettings> {
  const row = await db('app_network').where({ app_id: appId }).first('settings')
  return row?.settings ?? {}
}

/** Replaces the settings of an application by what `change` makes of them, one change at a time, and wakes the proxies. */
export async function changeNetworkSettings(
  db: Db,
  appId: string,
  change: (before: NetworkSettings) => NetworkSettings,
): Promise<NetworkSettings> {
  return transaction(db, async trx => {
    await trx('app_network').insert({ app_id: appId }).onConflict('app_id').ignore()
    const { settings: before } = await trx('app_network').where({ app_id: appId }).forUpdate().first('settings')
    const settings = change(before)
    await trx('app_network')
      .where({ app_id: appId })
      .update({ settings: JSON.stringify(settings), version: trx.raw('version + 1') })
    await wakeEdges(trx)
    return settings
  })
}

/** The settings of one host name. */
export interface HostSettings {
  /** Null: that of the application below the domain of applications. */
  hostname: string | null
  subdomain: string
  /** Another one for each change. */
  version: string
  settings: NetworkSettings
}

/** The settings of every host name that has some. Those of a load balancer's name are those of its oldest application. */
export async function listHostSettings(db: Db): Promise<HostSettings[]> {
  const { rows } = await db.raw(
    `select null as hostname, a.subdomain, n.app_id || '.' || n.version as version, n.settings
       from app_network n join apps a on a.id = n.app_id
      where a.subdomain is not null and n.settings <> '{}'
     union all
     select * from (
       select distinct on (a.custom_domain) a.custom_domain, a.subdomain, n.app_id || '.' || n.version, coalesce(n.settings, '{}')
         from apps a left join app_network n on n.app_id = a.id
        where a.custom_domain is not null and a.subdomain is not null and not a.accepting
        order by a.custom_domain, a.created_at, a.id) oldest(hostname, subdomain, version, settings)
      where settings <> '{}'`,
  )
  return rows
}
