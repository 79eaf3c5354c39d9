import { newId } from '../policy/ids.ts'
import type { Db } from './database.ts'
import { statement } from './statement.ts'

/** One of the places that a subject, such as the parts of an account, has for what is under way. */
export interface BlobLease {
  subject: string
  place: number
  holder: string
}

/** So long a lease holds unless it is renewed, in seconds. */
export const blobLeaseSeconds = 60

const take = statement<{ free: number | null; taken: number | null }>(
  'blob-leases.take',
  `with free as (
     select place from generate_series(1, $2::integer) as p (place)
      where not exists (select from blob_leases l where l.subject = $1 and l.place = p.place and l.expires_at > now())
      order by random() limit 1
   ), taken as (
     insert into blob_leases as l (subject, place, holder, expires_at)
     select $1, place, $3, now() + make_interval(secs => ${blobLeaseSeconds}) from free
     on conflict (subject, place) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where l.expires_at <= now()
     returning place
   )
   select (select place from free) as free, (select place from taken) as taken`,
)

/** Takes one of `most` places, over all processes; undefined when none is free. */
export async function takeBlobLease(db: Db, subject: string, most: number): Promise<BlobLease | undefined> {
  const holder = newId()
  for (;;) {
    const [found] = await take(db, [subject, most, holder])
    if (!found?.free) return undefined
    if (found.taken) return { subject, place: found.taken, holder }
    // Somebody else got the place that looked free: there may be another.
  }
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
  'delete from blob_leases where subject = $1 and place = $2 and holder = $3',
)

/** Gives the place back. */
export async function endBlobLease(db: Db, { subject, place, holder }: BlobLease): Promise<void> {
  await end(db, [subject, place, holder])
}

/** Drops the places of processes that ended without a word. */
export async function sweepBlobLeases(db: Db): Promise<void> {
  await db('blob_leases').where('expires_at', '<', db.fn.now()).delete()
}
