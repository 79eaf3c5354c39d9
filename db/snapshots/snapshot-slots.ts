import { snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'
import { leaseSeconds } from '../../policy/leases.ts'
import { type Db, transaction } from '../database.ts'
import type { OperationKind, TargetType } from '../operations/operation-kinds.ts'
import { slotNumbers } from '../slot-leases.ts'

const subjectOf = (hostId: string) => `snapshot/${hostId}`

const leaseEnd = `now() + make_interval(secs => ${leaseSeconds.snapshot})`

/** Operations that want a slot of a host, and those that still copy there: these count as holders, also after their lease is lost. */
export interface SlotRequests {
  hostId: string
  waiting: readonly string[]
  copying?: readonly string[]
}

/** What has a slot: its account, and whether it copies a database. */
export interface SlotHolder {
  ownerId: string
  isOfDatabase: boolean
}

/**
 * Gives the free snapshot slots of a host to waiting operations, in their order: at most one per account across all processes. Renews
 * those that they have. Resolves to all holders, by operation, oldest holder first.
 */
export async function assignSnapshotSlots(
  db: Db,
  { hostId, waiting, copying = [] }: SlotRequests,
): Promise<Map<string, SlotHolder>> {
  const subject = subjectOf(hostId)
  return transaction(db, async trx => {
    // Two statements for one account would each find it without a slot.
    await trx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [subject])
    await trx('blob_leases').where({ subject }).where('expires_at', '<=', trx.fn.now()).delete()
    await trx('blob_leases')
      .where({ subject })
      .whereIn('holder', waiting)
      .update({ expires_at: trx.raw(leaseEnd) })
    // An operation that is missing counts as an account of its own.
    const { rows } = await trx.raw(
      `with held as (
         select place, holder as id, since from blob_leases where subject = :subject
       ), busy as (
         select id, since, coalesce(o.owner_id, id) as owner
           from (select id, since from held
                  union all select id, now() from unnest(cast(:copying as text[])) as c (id) where id not in (select id from held)) b
           left join operations o using (id)
       ), first_of_account as (
         select distinct on (owner) id, owner, n
           from (select w.id, w.n, coalesce(o.owner_id, w.id) as owner
                   from unnest(cast(:waiting as text[])) with ordinality as w (id, n) left join operations o using (id)) w
          where owner not in (select owner from busy)
          order by owner, n
       ), next as (
         select id, owner, row_number() over (order by n) as slot from first_of_account
          order by n limit greatest(0, :atOnce - (select count(*) from busy))
       ), free as (
         select place, row_number() over (order by place) as slot from unnest(cast(:places as integer[])) as p (place)
          where place not in (select place from held)
       ), given as (
         insert into blob_leases (subject, place, holder, expires_at)
         select :subject, place, id, ${leaseEnd} from free join next using (slot)
         returning holder
       )
       select id, owner, coalesce(o.target_type = 'database', false) as of_database
         from (select id, owner, since from busy union all select id, owner, now() from next join given on holder = id) holders
         left join operations o using (id)
        order by since, id`,
      { subject, waiting, copying, atOnce: snapshotsAtOnce, places: slotNumbers(snapshotsAtOnce) },
    )
    return new Map(
      (rows as { id: string; owner: string; of_database: boolean }[]).map(one => [
        one.id,
        { ownerId: one.owner, isOfDatabase: one.of_database },
      ]),
    )
  })
}

/** Renews the slot of an operation; false when it has none. Takes no free slot: others may have waited for longer. */
export async function renewSnapshotSlot(db: Db, hostId: string, operationId: string): Promise<boolean> {
  const renewed = await db('blob_leases')
    .where({ subject: subjectOf(hostId), holder: operationId })
    // Afterwards its account may have another one.
    .where('expires_at', '>', db.fn.now())
    .update({ expires_at: db.raw(leaseEnd) })
  return renewed === 1
}

/**
 * Renews or takes a slot for an operation; false when others have all, or its account has one. Also inserts a lease again that a crash of
 * the database has lost: the table is not logged.
 */
export async function holdSnapshotSlot(db: Db, hostId: string, operationId: string): Promise<boolean> {
  if (await renewSnapshotSlot(db, hostId, operationId)) return true
  return (await assignSnapshotSlots(db, { hostId, waiting: [operationId] })).has(operationId)
}

/** Frees the slot; succeeds without one. */
export async function releaseSnapshotSlot(db: Db, hostId: string, operationId: string): Promise<void> {
  await db('blob_leases')
    .where({ subject: subjectOf(hostId), holder: operationId })
    .delete()
}

/** What has a snapshot slot of a host, for operators: customers are not shown it, because other customers have it. */
export interface SnapshotSlotHolder {
  host_id: string
  /** The number of the slot; 1 = first. */
  place: number
  since: Date
  operation_id: string
  /** These are null when the operation was deleted. */
  kind: OperationKind | null
  target_type: TargetType | null
  target_id: string | null
  name: string | null
  owner_id: string | null
  owner_email: string | null
}

/** The holders of the snapshot slots of a host, by slot. */
export async function listSnapshotSlotHolders(db: Db, hostId: string): Promise<SnapshotSlotHolder[]> {
  return db('blob_leases as l')
    .leftJoin('operations as o', 'o.id', 'l.holder')
    .leftJoin('users as u', 'u.id', 'o.owner_id')
    .leftJoin('apps as a', 'a.id', 'o.target_id')
    .leftJoin('databases as d', 'd.id', 'o.target_id')
    .where('l.subject', subjectOf(hostId))
    .where('l.expires_at', '>', db.fn.now())
    .orderBy('l.place')
    .select('l.place', 'l.since', 'l.holder as operation_id', 'o.kind', 'o.target_type', 'o.target_id', 'o.owner_id')
    .select(db.raw('? as host_id', [hostId]), db.raw('coalesce(a.name, d.name) as name'), 'u.email as owner_email')
}
