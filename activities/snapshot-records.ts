import { recordRelease } from '../db/apps/app-releases.ts'
import type { Db } from '../db/database.ts'
import * as operations from '../db/operations/operations.ts'
import { clearAppDamage } from '../db/operations/undo-failures.ts'
import { releaseSnapshotSlot, renewSnapshotSlot } from '../db/snapshots/snapshot-slots.ts'
import { postponeSnapshotWarning } from '../db/snapshots/snapshot-warnings.ts'
import { markSnapshotFailed, markSnapshotGood, type StoredSnapshot } from '../db/snapshots/snapshots.ts'
import { refusal } from './failures.ts'
import { recordDeployment } from './releases/deployment-state.ts'
import { type Failure, failed, withCanceller } from './releases/failure-outcome.ts'
import type { LaneOperation } from './releases/release.ts'
import type { Fence } from './steps/claims.ts'

/** Records outcomes of snapshots and restores in Postgres. Each is one transaction and may be repeated. */
export function snapshotRecords(db: Db, fence: Fence) {
  return {
    /** Renews the snapshot slot of this operation; false when it holds none. */
    async keepSnapshotPlace({ id, release }: LaneOperation): Promise<boolean> {
      return renewSnapshotSlot(db, release.hostId, id)
    },

    async leaveSnapshotPlace({ id, release }: LaneOperation): Promise<void> {
      await releaseSnapshotSlot(db, release.hostId, id)
    },

    /** The archive was read back and is good. */
    async snapshotTaken(operation: LaneOperation, stored: StoredSnapshot): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        // First: others lock the application before its snapshots.
        await postponeSnapshotWarning(trx, 'app', release.appId)
        if (!(await markSnapshotGood(trx, id, stored)))
          throw refusal('SNAPSHOT_FAILED', 'The archive was no longer in the object store when it was to be recorded.')
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** Nothing of the snapshot is left but the reason. */
    async snapshotFailed(operation: LaneOperation, reason: Failure): Promise<void> {
      await fence(operation, async (trx, { id }) => {
        await markSnapshotFailed(trx, id)
        await operations.finishOperation(trx, id, failed(await withCanceller(trx, id, reason)))
      })
    },

    /** The release is in place, and its application stays stopped as it was. */
    async releaseStands(operation: LaneOperation): Promise<void> {
      await fence(operation, async (trx, { id, release }) => {
        await recordRelease(trx, release.appId, release.number, null)
        await clearAppDamage(trx, release.appId)
        await recordDeployment(trx, release, { state: 'success' })
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },
  }
}
