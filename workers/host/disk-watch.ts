import type { Logger } from 'pino'
import type { VolumeFault, Volumes } from '../../activities/volumes/port.ts'
import { releasedApps } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { recordProtection } from '../../db/hosts/hosts.ts'
import { loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface DiskWatchOptions {
  db: Db
  volumes: Pick<Volumes, 'faults'>
  hostId: string
  log: Logger
  everySeconds?: number
}

/** Of so many applications with the same fault the ids are told. */
const mostNamed = 3

/** How the disks of applications stand, for people. */
export function disksState(count: number, faults: ReadonlyMap<string, VolumeFault>): string {
  if (faults.size === 0) return 'all there'
  const kinds: VolumeFault[] = ['lost', 'read-only', 'not mounted']
  const told = kinds.flatMap(kind => {
    const ids = [...faults].filter(([, fault]) => fault === kind).map(([id]) => id)
    const more = ids.length > mostNamed ? ' and others' : ''
    return ids.length > 0 ? [`${ids.length} ${kind} (${ids.slice(0, mostNamed).join(', ')}${more})`] : []
  })
  return `BROKEN: of ${count} are ${told.join(', ')}`
}

/**
 * Tells operators of disks that are lost or that take nothing any more: whose program only answers requests would not notice for
 * days. Looks in every round and writes down what is new, until the signal aborts.
 */
export async function watchDisks(
  { db, volumes, hostId, log, everySeconds = roundSeconds.disks }: DiskWatchOptions,
  signal: AbortSignal,
): Promise<void> {
  let written = ''
  const look = async () => {
    const ids = await releasedApps(db, hostId)
    const state = disksState(ids.length, await volumes.faults(ids))
    if (state === written) return
    await recordProtection(db, hostId, 'disks', state)
    if (state.startsWith('BROKEN')) log.error({ state }, 'disks of applications')
    written = state
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'disks: will look again')
  await loop(look, { signal, everyMs: everySeconds * 1000, onError })
}
