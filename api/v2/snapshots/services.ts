import type { SnapshotRow } from '../../../db/snapshots/snapshots.ts'
import type { TtlCache } from '../../../lib/async/ttl-cache.ts'

export interface SnapshotServices {
  /** The snapshots of an account, by its id. */
  accountSnapshots: TtlCache<SnapshotRow[]>
}
