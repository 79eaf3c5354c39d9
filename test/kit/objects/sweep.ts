import { sweepSegments } from '../../../activities/objects/segment-sweep.ts'
import { openReceipt } from '../../../db/objects/blob-receipts.ts'
import { newId } from '../../../policy/ids.ts'
import { type UpkeepTimes, upkeepTimes } from '../../../policy/objects/blob-upkeep.ts'

/** One round of the sweep, with a receipt of its own; resolves to the number of bodies removed. */
export async function sweep(
  parts: Parameters<typeof sweepSegments>[0],
  times: Partial<UpkeepTimes> = {},
): Promise<number> {
  const id = newId()
  await openReceipt(parts.db, id, 'sweep')
  return sweepSegments(parts, id, { ...upkeepTimes, ...times })
}
