import { newId } from '../../policy/ids.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { statement } from '../statement.ts'

/** One of the places that a subject, such as the parts of an account, has for what is under way. */
export interface BlobLease {
  subject: string
  place: number
  holder: string
}

/**
 * The steps of a statement that takes places of a subject ($1) for holders ($3). Those that it has ($2) are told one by one: of a mere
 * number Postgres thinks that they are a thousand, and makes a new plan for every statement.
 */
export const placesTaken = `
   asked as (select * from unnest($3::text[]) with ordinality as h (holder, n)),
   free as (
     select place, row_number() over () as n from (
       select place from unnest($2::integer[]) as p (place)
        where not exists (select from blob_leases l where l.subject = $1 and l.place = p.place and l.expires_at > now())
        order by random() limit cardinality($3)) f
   ), taken as (
     insert into blob_leases as l (subject, place, holder, expires_at)
     select $1, place, holder, now() + make_interval(secs => ${leaseSeconds.body}) from free join asked using (n)
     on conflict (subject, place) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where l.expires_at <= now()
     returning place, holder
   ), places as (
     select a.holder, f.place is not null as free, t.place from asked a left join free f using (n) left join taken t using (holder)
   )`

/** All places of a subject that has so many. */
export const placesUpTo = (most: number): number[] => Array.from({ length: most }, (_, n) => n + 1)

/** What such a statement tells of a holder. */
export interface PlaceRow {
  holder: string
  free: boolean
  place: number | null
}

/** The places that holders got. Where somebody else got the place that looked free there may be another: it is tried again. */
export async function placesOf(
  holders: readonly string[],
  take: (open: readonly string[]) => Promise<readonly PlaceRow[]>,
): Promise<Map<string, number>> {
  const places = new Map<string, number>()
  for (let open = holders; open.length > 0; ) {
    const found = await take(open)
    for (const { holder, place } of found) if (place) places.set(holder, place)
    open = found.filter(({ free, place }) => free && !place).map(({ holder }) => holder)
  }
  return places
}

const take = statement<PlaceRow>('blob-leases.take', `with ${placesTaken} select * from places`)

/** Takes one of `most` places, over all processes; undefined when none is free. */
export async function takeBlobLease(db: Db, subject: string, most: number): Promise<BlobLease | undefined> {
  const holder = newId()
  const place = (await placesOf([holder], open => take(db, [subject, placesUpTo(most), open]))).get(holder)
  return place === undefined ? undefined : { subject, place, holder }
}

const renew = statement<never>(
  'blob-leases.renew',
  `insert into blob_leases as l (subject, place, holder, expires_at)
   values ($1, $2, $3, now() + make_interval(secs => ${leaseSeconds.body}))
   on conflict (subject, place) do update set expires_at = excluded.expires_at where l.holder = excluded.holder`,
)

/** Also brings back what a crash of the database has emptied. */
export async function renewBlobLease(db: Db, { subject, place, holder }: BlobLease): Promise<void> {
  await renew(db, [subject, place, holder])
}

const end = statement<never>(
  'blob-leases.end',
  'delete from blob_leases where subject = $1 and place = $2 and holder = $3',
)

/** Gives the place back. */
export async function endBlobLease(db: Db, { subject, place, holder }: BlobLease): Promise<void> {
  await end(db, [subject, place, holder])
}

/** Drops the places of processes that ended without a word. */
export function sweepBlobLeases(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'blob_leases', when: 'old.expires_at < now()' })
}
