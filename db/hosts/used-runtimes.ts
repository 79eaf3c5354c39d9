import type { UsedRuntime } from '../../policy/hosts/warm-images.ts'
import type { Db } from '../database.ts'

/** Runtimes of the applications of a host, those of most applications first; for a host without applications, of all hosts. */
export async function listUsedRuntimes(db: Db, hostId: string, limit: number): Promise<UsedRuntime[]> {
  const mostUsed = () =>
    db('apps')
      .select('language', 'runtime_version as version')
      .groupBy('language', 'runtime_version')
      .orderByRaw('count(*) desc, language, runtime_version')
      .limit(limit)
  const own = await mostUsed().where({ host_id: hostId })
  return own.length > 0 ? own : mostUsed()
}
