import { newId } from '../../policy/ids.ts'
import { owedPurges } from '../../policy/rounds.ts'
import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'
import { announceApp } from './apps.ts'

/** Purges what the proxy has cached of an application: with the commit the route keeper gives its route another version. */
export async function purgeCache(db: Db, appId: string): Promise<void> {
  const purged = await db('apps').where({ id: appId }).increment('cache_version')
  if (purged) await announceApp(db, appId)
}

/** How often the cache of an application was purged; 0 when it is deleted. */
export async function readCacheVersion(db: Db, appId: string): Promise<number> {
  return (await version(db, [appId]))[0]?.version ?? 0
}

const version = statement<{ version: number }>(
  'cache-versions.of-app',
  'select cache_version as version from apps where id = $1',
)

/** A purge that follows a change of an application's files, whatever becomes of the process that makes the change. */
export interface OwedPurge {
  appId: string
  id: string
}

/** Call it before the change. Null: the application has no address, so nothing of it is cached. */
export async function owePurge(db: Db, appId: string): Promise<OwedPurge | null> {
  const { rows } = await db.raw(
    `insert into owed_purges (app_id, id, due_at)
     select id, :id, now() + make_interval(secs => :seconds) from apps where id = :appId and subdomain is not null
     returning app_id as "appId", id`,
    { appId, id: newId(), seconds: owedPurges.afterSeconds },
  )
  return rows[0] ?? null
}

/** Call it after the change, whether it succeeded or not: one that failed may have happened nevertheless. */
export async function payPurge(db: Db, { appId, id }: OwedPurge): Promise<void> {
  await transaction(db, async trx => {
    await trx('owed_purges').where({ app_id: appId, id }).delete()
    await purgeCache(trx, appId)
  })
}

/** Ids of applications with purges that are overdue: their process has ended, or makes its change still. */
export async function listOverdue(db: Db): Promise<string[]> {
  const overdue = db('owed_purges').where('due_at', '<', db.fn.now())
  return overdue.groupBy('app_id').orderByRaw('min(due_at)').limit(owedPurges.atOnce).pluck('app_id')
}

/**
 * Purges for changes of an application whose process has not come to its purge, and once more long after: the process may have been
 * suspended before its change.
 */
export async function payOverdue(db: Db, appId: string): Promise<void> {
  await transaction(db, async trx => {
    // As long as something else has locked the application, another round does it.
    if (!(await trx('apps').where({ id: appId }).forUpdate().skipLocked().first('id'))) return
    const overdue = () => trx('owed_purges').where({ app_id: appId }).where('due_at', '<', trx.fn.now())
    const ended = await overdue().where({ is_last: true }).delete()
    const again = await overdue().update({
      is_last: true,
      due_at: trx.raw('now() + make_interval(secs => ?)', [owedPurges.againSeconds]),
    })
    if (ended + again > 0) await purgeCache(trx, appId)
  })
}
