import type { Db } from '../../db/database.ts'
import { reserveVolumes, revertVolume, switchVolume } from '../../db/databases/database-volumes.ts'
import * as databases from '../../db/databases/databases.ts'
import { addToInput } from '../../db/operations/database-inputs.ts'
import * as operations from '../../db/operations/operations.ts'
import { releaseSnapshotSlot, renewSnapshotSlot } from '../../db/snapshots/snapshot-slots.ts'
import { postponeSnapshotWarning } from '../../db/snapshots/snapshot-warnings.ts'
import { markSnapshotFailed, markSnapshotGood, recordSnapshotProof } from '../../db/snapshots/snapshots.ts'
import type { StartedDatabase } from '../database-host.ts'
import type { ProvedSnapshot } from '../database-snapshots.ts'
import { refusal } from '../failures.ts'
import type { Fence } from '../steps/claims.ts'
import type { DatabaseOperation } from './operation.ts'

/** Records outcomes of snapshots and restores of databases. `serves` records that an engine does. */
export function databaseSnapshotRecords(
  db: Db,
  fence: Fence,
  serves: (trx: Db, databaseId: string, started: StartedDatabase) => Promise<void>,
) {
  return {
    /** Gives the operation numbers for a volume with a dump and one with a copy of the data, once. */
    async reserveVolumes(operation: DatabaseOperation): Promise<void> {
      await fence(operation, (trx, { id, databaseId }) => reserveVolumes(trx, id, databaseId))
    },

    /** The copy of a restore becomes the volume that serves; the one before is retained for a while. May be repeated. */
    async switchVolume(operation: DatabaseOperation): Promise<void> {
      await fence(operation, (trx, { id, databaseId }) => switchVolume(trx, id, databaseId))
    },

    /** The volume before a restore serves again. */
    async revertVolume(operation: DatabaseOperation): Promise<void> {
      await fence(operation, (trx, { id, databaseId }) => revertVolume(trx, id, databaseId))
    },

    /**
     * From here on the host watch leaves the container of the database to this restore. Resolves to whether the engine runs, by its row,
     * which then says that it restarts; a repeated call resolves to the same.
     */
    async beginSwitch(operation: DatabaseOperation): Promise<boolean> {
      let runs = false
      await fence(operation, async (trx, { id, databaseId }) => {
        const { ran } = (await operations.findOperation(trx, id))?.input ?? {}
        runs = ran === undefined ? (await databases.loadDatabase(trx, databaseId))?.status === 'running' : Boolean(ran)
        if (runs) await databases.recordDatabaseStatus(trx, databaseId, 'restarting')
        await addToInput(trx, id, { ran: runs })
        await operations.recordStep(trx, id, operations.changingVersions)
      })
      return runs
    },

    /** The database has the contents of the snapshot; null = it does not run, as before. */
    async databaseRestored(operation: DatabaseOperation, started: StartedDatabase | null): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        if (started) await serves(trx, databaseId, started)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    async keepDatabaseSnapshotPlace({ id, hostId }: DatabaseOperation): Promise<boolean> {
      return renewSnapshotSlot(db, hostId, id)
    },

    async leaveDatabaseSnapshotPlace({ id, hostId }: DatabaseOperation): Promise<void> {
      await releaseSnapshotSlot(db, hostId, id)
    },

    /** The snapshot was restored into another engine, and is good. */
    async databaseSnapshotTaken(operation: DatabaseOperation, stored: ProvedSnapshot): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        // First: others lock the database before its snapshots.
        await postponeSnapshotWarning(trx, 'database', databaseId)
        if (!(await markSnapshotGood(trx, id, stored)))
          throw refusal('SNAPSHOT_FAILED', 'The archive was no longer in the object store when it was to be recorded.')
        await recordSnapshotProof(trx, id, stored)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** Nothing of the snapshot is left but the reason. */
    async databaseSnapshotFailed(operation: DatabaseOperation, reason: { code: string; message: string }) {
      await fence(operation, async (trx, { id }) => {
        await markSnapshotFailed(trx, id)
        await operations.finishOperation(trx, id, { state: 'error', ...reason })
      })
    },
  }
}
