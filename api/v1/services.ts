import type { ObjectStore } from '../../activities/objects/port.ts'
import type { SegmentIds } from '../../db/objects/segment-ids.ts'
import type { StorageQuota } from '../../db/objects/storage-quota.ts'
import type { MonthUsage } from '../../db/objects/usage-upkeep.ts'
import type { TtlCache } from '../../lib/async/ttl-cache.ts'

/** What uploads and blob storage need. */
export interface ObjectServices {
  store: ObjectStore
  /** Ids of segments that are about to be stored. */
  segmentIds: SegmentIds
  /** Holds accounts within the storage that their plan includes. */
  quota: StorageQuota
  /** What an account stores, by its id. */
  blobUsage: TtlCache<MonthUsage>
}
