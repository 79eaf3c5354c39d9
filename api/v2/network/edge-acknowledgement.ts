import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../../../db/database.ts'
import { edgesBehind, isAnyEdgeLive } from '../../../db/domains/edges.ts'
import { edgeRules } from '../../../policy/domains/edges.ts'

interface Awaited {
  /** Number of a committed transaction. */
  transaction: string
  /** Host name of the application that it has changed; null for one without an address. */
  host: string | null
}

/** Waits a few seconds until every live proxy has a change. False: one has not, none is live, or the client has left. */
export async function everyEdgeHas(db: Db, { transaction, host }: Awaited, client: AbortSignal): Promise<boolean> {
  const end = performance.now() + edgeRules.waitSeconds * 1000
  for (let waitMs = 5; await isAnyEdgeLive(db); waitMs = Math.min(2 * waitMs, 200)) {
    if ((await edgesBehind(db, transaction, host)).length === 0) return true
    if (performance.now() > end || client.aborted) break
    await sleep(waitMs)
  }
  return false
}
