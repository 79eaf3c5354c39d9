import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import { isBootRouted } from '../../db/hosts/host-boots.ts'
import type { Boot } from './boot.ts'

/** Resolves once no route leads to a port of an earlier boot of this host; rejects when the signal aborts. */
export type RouteGate = (signal: AbortSignal) => Promise<void>

/**
 * Every container with a port waits for this gate: engines assign ports again after a boot, and until the proxy has dropped the old
 * ones, a container could answer for another application. Once open, the gate stays open for that boot.
 */
export function routeGate(db: Db, hostId: string, boot: Pick<Boot, 'id'>, everyMs = 100): RouteGate {
  let open: string | undefined
  return async signal => {
    for (let { id } = boot; open !== id; { id } = boot) {
      if (await isBootRouted(db, hostId, id)) open = id
      else await sleep(everyMs, undefined, { signal })
    }
  }
}
