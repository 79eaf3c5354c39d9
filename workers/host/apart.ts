import type { Logger } from 'pino'
import { isUnavailable } from '../../db/database.ts'

/** What fails for one application holds up no other: it is logged, and false. Rejects when Postgres or the engine is away. */
export async function apart(log: Logger, appId: string, act: () => Promise<void>): Promise<boolean> {
  try {
    await act()
    return true
  } catch (error) {
    if (isUnavailable(error)) throw error
    log.warn({ err: error, appId }, 'watch: will look at this application again')
    return false
  }
}
