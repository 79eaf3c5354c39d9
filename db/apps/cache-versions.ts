import type { Db } from '../database.ts'
import { announceApp } from './apps.ts'

/** Purges what the proxy has cached of an application: with the commit the route keeper gives its route another version. */
export async function purgeCache(db: Db, appId: string): Promise<void> {
  const purged = await db('apps').where({ id: appId }).increment('cache_version')
  if (purged) await announceApp(db, appId)
}

/** How often the cache of an application was purged; 0 when it is deleted. */
export async function readCacheVersion(db: Db, appId: string): Promise<number> {
  const row = await db('apps').where({ id: appId }).first('cache_version')
  return row?.cache_version ?? 0
}
