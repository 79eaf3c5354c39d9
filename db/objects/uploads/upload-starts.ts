import { newId } from '../../../policy/ids.ts'
import type { RuleFields } from '../../../policy/objects/blob-rules.ts'
import { batched } from '../../batched.ts'
import type { Db } from '../../database.ts'
import { type SlotLease, type SlotRow, slotNumbers, takeSlots, takeSlotsSql } from '../../slot-leases.ts'
import { statement } from '../../statement.ts'

/** What an upload of an account needs at its start, read in one statement. */
export interface UploadStart {
  rules: readonly RuleFields[]
  /** Its upload slot; undefined when all are taken. */
  lease: SlotLease | undefined
}

interface StartRequest {
  holder: string
  maxUploads: number
}

const start = statement<SlotRow & { rules: RuleFields[] | null }>(
  'uploads.start',
  `with ${takeSlotsSql}
   select slots.*, case when row_number() over () = 1 then (
       select json_agg(json_build_object('prefix', prefix, 'private', private, 'expire', expire, 'max_size', max_size,
                'extensions', extensions, 'cache_control', cache_control, 'delete_after_days', delete_after_days))
         from blob_rules where owner_id = $4) end as rules
     from slots`,
)

const startBatched = batched<StartRequest, UploadStart>(async (db, ownerId, requests) => {
  const subject = `upload/${ownerId}`
  const holders = requests.map(request => request.holder)
  let rules: RuleFields[] = []
  const slots = await takeSlots(holders, async waiting => {
    const rows = await start(db, [subject, slotNumbers(requests[0]!.maxUploads), waiting, ownerId])
    rules = rows.find(row => row.rules)?.rules ?? []
    return rows
  })
  return holders.map(holder => {
    const place = slots.get(holder)
    return { rules, lease: place === undefined ? undefined : { subject, place, holder } }
  })
})

/** Starts an upload; an account may have `maxUploads` in progress, over all processes. */
export const startUpload = (db: Db, ownerId: string, maxUploads: number): Promise<UploadStart> =>
  startBatched(db, ownerId, { holder: newId(), maxUploads })
