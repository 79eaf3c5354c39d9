import type { Db } from '../../../db/database.ts'
import { readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import type { DatabaseHostActivities } from '../../database-host.ts'
import type { PointInTime } from './point-in-time.ts'

type Steps = Pick<DatabaseHostActivities, 'startDatabase' | 'stopDatabase'>

/**
 * The steps that start and stop an engine, with a record of clean stops: after one, the WAL files in the archive are all that there is, and a
 * restore to any later moment needs no running engine.
 */
export function recordingClosings<T extends Steps>(
  db: Db,
  { opened, closed }: Pick<PointInTime, 'opened' | 'closed'>,
  steps: T,
): T {
  return {
    ...steps,
    async startDatabase(input, how) {
      const database = await readFactsOfDatabase(db, input.databaseId)
      if (database) await opened(database)
      return steps.startDatabase(input, how)
    },
    async stopDatabase(input, how) {
      const database = await readFactsOfDatabase(db, input.databaseId)
      const exit = await steps.stopDatabase(input, how)
      if (database && exit.code === 0) await closed(database)
      return exit
    },
  }
}
