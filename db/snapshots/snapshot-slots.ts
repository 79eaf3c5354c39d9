import { leaseSeconds } from '../../policy/leases.ts'
import type { Db } from '../database.ts'

const subjectOf = (hostId: string) => `snapshot/${hostId}`

/**
 * Takes or renews the only slot that a host has for snapshots; false while another operation has it. Also inserts a lease again that a
 * crash of the database has lost: the table is not logged.
 */
export async function takeSnapshotSlot(db: Db, hostId: string, operationId: string): Promise<boolean> {
  const { rowCount } = await db.raw(
    `insert into blob_leases as l (subject, place, holder, expires_at)
     values (:subject, 1, :operationId, now() + make_interval(secs => :heldSeconds))
     on conflict (subject, place) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where l.holder = excluded.holder or l.expires_at <= now()`,
    { subject: subjectOf(hostId), operationId, heldSeconds: leaseSeconds.snapshot },
  )
  return rowCount === 1
}

/** Renews the slot of an operation; false when it has none. Takes no free slot: others may have waited for longer. */
export async function renewSnapshotSlot(db: Db, hostId: string, operationId: string): Promise<boolean> {
  const renewed = await db('blob_leases')
    .where({ subject: subjectOf(hostId), holder: operationId })
    .update({ expires_at: db.raw('now() + make_interval(secs => ?)', [leaseSeconds.snapshot]) })
  return renewed === 1
}

/** Frees the slot; succeeds without one. */
export async function releaseSnapshotSlot(db: Db, hostId: string, operationId: string): Promise<void> {
  await db('blob_leases')
    .where({ subject: subjectOf(hostId), holder: operationId })
    .delete()
}
