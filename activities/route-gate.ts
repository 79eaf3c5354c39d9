import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../db/database.ts'
import { isRouted } from '../db/host-boots.ts'

/** Resolves once no route leads to a port of an earlier boot of this host; rejects when the signal aborts. */
export type RouteGate = (signal: AbortSignal) => Promise<void>

/**
 * What every container with a port waits for: engines deal ports anew after a boot, and until the proxy has forgotten the old ones a
 * container could answer for another application. Once open it stays open.
 */
export function routeGate(db: Db, hostId: string, bootId: string, everyMs = 100): RouteGate {
  let open = false
  return async signal => {
    while (!open) {
      open = await isRouted(db, hostId, bootId)
      if (!open) await sleep(everyMs, undefined, { signal })
    }
  }
}
