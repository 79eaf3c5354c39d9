import { newId } from '../policy/ids.ts'
import type { Db } from './database.ts'
import { gathered } from './gathered.ts'
import { statement } from './statement.ts'

/** One of the places that a subject, such as the parts of an account, has for what is under way. */
export interface BlobLease {
  subject: string
  place: number
  holder: string
}

/** So long a lease holds unless it is renewed, in seconds. */
export const blobLeaseSeconds = 60

const take = statement<{ holder: string; free: boolean; place: number | null }>(
  'blob-leases.take',
  `with asked as (select * from unnest($3::text[]) with ordinality as h (holder, n)),
   free as (
     select place, row_number() over () as n from (
       select place from generate_series(1, $2::integer) as p (place)
        where not exists (select from blob_leases l where l.subject = $1 and l.place = p.place and l.expires_at > now())
        order by random() limit cardinality($3)) f
   ), taken as (
     insert into blob_leases as l (subject, place, holder, expires_at)
     select $1, place, holder, now() + make_interval(secs => ${blobLeaseSeconds}) from free join asked using (n)
     on conflict (subject, place) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where l.expires_at <= now()
     returning place, holder
   )
   select a.holder, f.place is not null as free, t.place from asked a left join free f using (n) left join taken t using (holder)`,
)

interface Claim {
  holder: string
  most: number
}

const takeTogether = gathered<Claim, number | undefined>(async (db, subject, claims) => {
  const places = new Map<string, number>()
  for (let open = claims.map(claim => claim.holder); open.length > 0; ) {
    const found = await take(db, [subject, claims[0]!.most, open])
    for (const { holder, place } of found) if (place) places.set(holder, place)
    // Somebody else got the place that looked free: there may be another.
    open = found.filter(({ free, place }) => free && !place).map(({ holder }) => holder)
  }
  return claims.map(claim => places.get(claim.holder))
})

/** Takes one of `most` places, over all processes; undefined when none is free. */
export async function takeBlobLease(db: Db, subject: string, most: number): Promise<BlobLease | undefined> {
  const holder = newId()
  const place = await takeTogether(db, subject, { holder, most })
  return place === undefined ? undefined : { subject, place, holder }
}

const renew = statement<never>(
  'blob-leases.renew',
  `insert into blob_leases as l (subject, place, holder, expires_at)
   values ($1, $2, $3, now() + make_interval(secs => ${blobLeaseSeconds}))
   on conflict (subject, place) do update set expires_at = excluded.expires_at where l.holder = excluded.holder`,
)

/** Also brings back what a crash of the database has emptied. */
export async function renewBlobLease(db: Db, { subject, place, holder }: BlobLease): Promise<void> {
  await renew(db, [subject, place, holder])
}

const end = statement<never>(
  'blob-leases.end',
  `delete from blob_leases l using unnest($1::text[], $2::integer[], $3::text[]) as gone (subject, place, holder)
    where l.subject = gone.subject and l.place = gone.place and l.holder = gone.holder`,
)

const endTogether = gathered<BlobLease, void>(async (db, _, leases) => {
  await end(
    db,
    (['subject', 'place', 'holder'] as const).map(field => leases.map(lease => lease[field])),
  )
  return leases.map(() => undefined)
})

/** Gives the place back. */
export const endBlobLease = (db: Db, lease: BlobLease): Promise<void> => endTogether(db, 'ends', lease)

/** Drops the places of processes that ended without a word. */
export async function sweepBlobLeases(db: Db): Promise<void> {
  await db('blob_leases').where('expires_at', '<', db.fn.now()).delete()
}
