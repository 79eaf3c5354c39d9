import { newId } from '../../../policy/ids.ts'
import type { RuleFields } from '../../../policy/objects/blob-rules.ts'
import type { Db } from '../../database.ts'
import { gathered } from '../../gathered.ts'
import { statement } from '../../statement.ts'
import { type BlobLease, type PlaceRow, placesOf, placesTaken, placesUpTo } from '../blob-leases.ts'

/** What an upload of an account begins with, all of one moment. */
export interface UploadStart {
  rules: readonly RuleFields[]
  /** Its place among those that are on their way; undefined when all are taken. */
  lease: BlobLease | undefined
}

interface Wish {
  holder: string
  most: number
}

const start = statement<PlaceRow & { rules: RuleFields[] | null }>(
  'uploads.start',
  `with ${placesTaken}
   select places.*, case when row_number() over () = 1 then (
       select json_agg(json_build_object('prefix', prefix, 'private', private, 'expire', expire, 'max_size', max_size,
                'extensions', extensions, 'cache_control', cache_control, 'delete_after_days', delete_after_days))
         from blob_rules where owner_id = $4) end as rules
     from places`,
)

const startTogether = gathered<Wish, UploadStart>(async (db, ownerId, wishes) => {
  const subject = `upload/${ownerId}`
  const holders = wishes.map(wish => wish.holder)
  let rules: RuleFields[] = []
  const places = await placesOf(holders, async open => {
    const rows = await start(db, [subject, placesUpTo(wishes[0]!.most), open, ownerId])
    rules = rows.find(row => row.rules)?.rules ?? []
    return rows
  })
  return holders.map(holder => {
    const place = places.get(holder)
    return { rules, lease: place === undefined ? undefined : { subject, place, holder } }
  })
})

/** Begins an upload, of which an account may have so many at once, over all processes. */
export const startUpload = (db: Db, ownerId: string, most: number): Promise<UploadStart> =>
  startTogether(db, ownerId, { holder: newId(), most })
