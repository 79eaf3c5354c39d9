import { type ListedContainer, labels } from '../../../activities/containers/port.ts'
import { databaseOfVolume, databaseVolume } from '../../../activities/databases/names.ts'
import type { PointInTime } from '../../../activities/databases/point-in-time/point-in-time.ts'
import { isInitialised } from '../../../activities/databases/preparation.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { isDatabaseInUse } from '../../../db/databases/database-lookups.ts'
import { takeReturn } from '../../../db/databases/database-restarts.ts'
import * as databases from '../../../db/databases/databases.ts'
import * as operations from '../../../db/operations/operations.ts'
import { dayMs } from '../../../lib/time.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { strayTerms } from '../../../policy/hosts/strays.ts'
import type { Residents } from '../watch/residents.ts'

/** The engine of a database that nothing is known about gets the longest time that any engine needs to end. */
export const graceSeconds = Math.max(...Object.values(engines).map(({ stop }) => stop.graceSeconds))

/** Id of the database that a container belongs to; empty for others. */
export const databaseOf = ({ labels: of }: Pick<ListedContainer, 'labels'>): string => of[labels.database] ?? ''

export interface ResidentsOptions {
  db: Db
  hostId: string
  volumes: Pick<Volumes, 'path' | 'faults'>
  /** Whether a volume that no longer serves has changes that are not stored yet; omitted = none has. */
  waits?: PointInTime['waits'] | undefined
}

/** The databases of a host. Each generation of one is a resident of its own, with its volume and containers. */
export function databaseResidents({
  db,
  hostId,
  volumes,
  waits = async () => false,
}: ResidentsOptions): Residents<databases.HostDatabase> {
  /** Whether nothing has ever served from it: a dump, or a copy that was only compared. What cannot be read may have served. */
  const isScratch = async (key: string): Promise<boolean> =>
    !(await volumes.faults([key])).has(key) && !(await isInitialised(volumes.path(key)).catch(() => true))
  const nameOf = (key: string) => databaseOfVolume(key)!
  return {
    words: { one: 'a database', many: 'customers’ databases' },
    keyOf: container => {
      const key = `${databaseOf(container)}-${container.labels[labels.release]}`
      return databaseOfVolume(key) && key
    },
    ownsVolume: volumeId => databaseOfVolume(volumeId) !== null,
    keyOfRow: databaseVolume,
    lockOf: key => nameOf(key).id,
    subjectOf: databaseId => ({ databaseId }),
    graceSeconds,

    async residence(key) {
      const { id, generation } = nameOf(key)
      // Before the row: an operation that ends meanwhile has written it.
      const isInUse = await isDatabaseInUse(db, id)
      const row = await databases.loadDatabase(db, id)
      if (!row) return (await operations.wasRemoved(db, id, 'database')) ? 'removed' : 'unknown'
      if (isInUse || isKept(row, generation)) return 'known'
      // What it has elsewhere may be all that is left of it, except what drills have made to try a snapshot.
      if (row.host_id !== hostId) return (await isScratch(key)) ? 'removed' : 'known'
      // A host that was away may find that its time is over: its last changes are stored first, by the copies of WAL files.
      if (generation === row.retired_generation && (await waits({ id, generation, engine: row.engine }, givenUp(row))))
        return 'known'
      // A number that the row has not given out is of a later day than this database: its volume may have what the row's has not.
      return generation < row.next_generation ? 'removed' : 'unknown'
    },

    async startAgain(row) {
      if (row.status === 'running') await bringBack(db, row, new Date())
    },
  }
}

/** The generation that serves, and for some time the one before a restore. */
function isKept(row: databases.DatabaseRow, generation: number): boolean {
  if (generation === row.generation) return true
  return generation === row.retired_generation && row.retired_until !== null && row.retired_until > new Date()
}

/** When the volume before a restore counts as lost if it cannot be mounted: it is retained as long as what no row knows. */
const givenUp = ({ retired_until: until }: databases.DatabaseRow): Date =>
  new Date((until?.getTime() ?? 0) + strayTerms.keptDays * dayMs)

/** Queues the start of a database that is to run and does not, unless its row changed since it was `seen`; it counts as ended at `endedAt`. */
export const bringBack = (db: Db, seen: databases.HostDatabase, endedAt: Date): Promise<void> =>
  startIf(db, seen, trx => takeReturn(trx, seen, endedAt))

/**
 * Queues the start of a database if `take` finds it so in the same transaction: what was taken and not queued would be lost. Not behind
 * another operation: a stop would be undone.
 */
export async function startIf(
  db: Db,
  { id, owner_id: ownerId }: Pick<databases.HostDatabase, 'id' | 'owner_id'>,
  take: (trx: Db) => Promise<boolean>,
): Promise<void> {
  await transaction(db, async trx => {
    if ((await operations.isBusy(trx, id, 'database')) || !(await take(trx))) return
    const target = { targetType: 'database', targetId: id } as const
    await operations.enqueueOperation(trx, { ...target, kind: 'start', ownerId, actor: operations.watchActor })
  })
}
