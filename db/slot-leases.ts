import { newId } from '../policy/ids.ts'
import { leaseSeconds } from '../policy/leases.ts'
import type { Db } from './database.ts'
import { deleteExpired } from './expired-rows.ts'
import { statement } from './statement.ts'

/** One of the slots of a subject, such as the parts of an account that may be uploaded concurrently. */
export interface SlotLease {
  subject: string
  /** The number of the slot; 1 = first. */
  place: number
  holder: string
}

/**
 * The steps of a statement that takes slots of a subject ($1) for holders ($3). All slot numbers are passed ($2): for a mere count
 * Postgres would estimate a thousand rows, and make a new plan for every statement.
 */
export const takeSlotsSql = `
   wanted as (select * from unnest($3::text[]) with ordinality as h (holder, n)),
   free as (
     select place, row_number() over () as n from (
       select place from unnest($2::integer[]) as p (place)
        where not exists (select from blob_leases l where l.subject = $1 and l.place = p.place and l.expires_at > now())
        order by random() limit cardinality($3)) f
   ), taken as (
     insert into blob_leases as l (subject, place, holder, expires_at)
     select $1, place, holder, now() + make_interval(secs => ${leaseSeconds.body}) from free join wanted using (n)
     on conflict (subject, place) do update
        set holder = excluded.holder, since = excluded.since, expires_at = excluded.expires_at
      where l.expires_at <= now()
     returning place, holder
   ), slots as (
     select w.holder, f.place is not null as free, t.place from wanted w left join free f using (n) left join taken t using (holder)
   )`

/** The numbers of all slots of a subject that has `max` of them. */
export const slotNumbers = (max: number): number[] => Array.from({ length: max }, (_, n) => n + 1)

/** The result of `takeSlotsSql` for one holder. */
export interface SlotRow {
  holder: string
  /** Whether a slot looked free. */
  free: boolean
  /** The slot that it got. */
  place: number | null
}

/** The slots that holders got. Where a concurrent statement took the slot that looked free, others may be free: `take` runs again. */
export async function takeSlots(
  holders: readonly string[],
  take: (waiting: readonly string[]) => Promise<readonly SlotRow[]>,
): Promise<Map<string, number>> {
  const slots = new Map<string, number>()
  for (let waiting = holders; waiting.length > 0; ) {
    const rows = await take(waiting)
    for (const { holder, place } of rows) if (place) slots.set(holder, place)
    waiting = rows.filter(({ free, place }) => free && !place).map(({ holder }) => holder)
  }
  return slots
}

const take = statement<SlotRow>('slot-leases.take', `with ${takeSlotsSql} select * from slots`)

/** Takes one of `max` slots, over all processes; undefined when none is free. */
export async function takeSlotLease(db: Db, subject: string, max: number): Promise<SlotLease | undefined> {
  const holder = newId()
  const place = (await takeSlots([holder], waiting => take(db, [subject, slotNumbers(max), waiting]))).get(holder)
  return place === undefined ? undefined : { subject, place, holder }
}

const renew = statement<never>(
  'slot-leases.renew',
  `insert into blob_leases as l (subject, place, holder, expires_at)
   values ($1, $2, $3, now() + make_interval(secs => ${leaseSeconds.body}))
   on conflict (subject, place) do update set expires_at = excluded.expires_at where l.holder = excluded.holder`,
)

/** Also inserts a lease again that a crash of the database has lost. */
export async function renewSlotLease(db: Db, { subject, place, holder }: SlotLease): Promise<void> {
  await renew(db, [subject, place, holder])
}

const end = statement<never>(
  'slot-leases.end',
  'delete from blob_leases where subject = $1 and place = $2 and holder = $3',
)

/** Frees the slot. */
export async function endSlotLease(db: Db, { subject, place, holder }: SlotLease): Promise<void> {
  await end(db, [subject, place, holder])
}

/** Deletes the leases of processes that were killed. */
export function sweepSlotLeases(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'blob_leases', when: 'old.expires_at < now()' })
}
