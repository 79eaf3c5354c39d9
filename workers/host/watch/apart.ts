import type { Logger } from 'pino'
import { isUnavailable } from '../../db/database.ts'

/** Runs `act` for one application, so that its failure does not delay others: logs it and resolves to false. Rejects when Postgres or the engine is down. */
export async function apart(log: Logger, appId: string, act: () => Promise<void>): Promise<boolean> {
  try {
    await act()
    return true
  } catch (error) {
    if (isUnavailable(error)) throw error
    log.warn({ err: error, appId }, 'watch: will check this application again')
    return false
  }
}
