import { leaseSeconds } from '../../policy/leases.ts'
import type { Db } from '../database.ts'

const subjectOf = (hostId: string) => `snapshot/${hostId}`

/**
 * Takes the one place that a host has for snapshots, or holds it on; false while another operation has it. Also brings back what a
 * crash of the database has emptied: the table is not logged.
 */
export async function holdSnapshotPlace(db: Db, hostId: string, operationId: string): Promise<boolean> {
  const { rowCount } = await db.raw(
    `insert into blob_leases as l (subject, place, holder, expires_at)
     values (:subject, 1, :operationId, now() + make_interval(secs => :heldSeconds))
     on conflict (subject, place) do update set holder = excluded.holder, expires_at = excluded.expires_at
      where l.holder = excluded.holder or l.expires_at <= now()`,
    { subject: subjectOf(hostId), operationId, heldSeconds: leaseSeconds.snapshot },
  )
  return rowCount === 1
}

/** Whether the operation has the place, which it then holds on. Takes none: others may have waited for longer. */
export async function keepSnapshotPlace(db: Db, hostId: string, operationId: string): Promise<boolean> {
  const kept = await db('blob_leases')
    .where({ subject: subjectOf(hostId), holder: operationId })
    .update({ expires_at: db.raw('now() + make_interval(secs => ?)', [leaseSeconds.snapshot]) })
  return kept === 1
}

/** Gives the place back; not having it is success. */
export async function leaveSnapshotPlace(db: Db, hostId: string, operationId: string): Promise<void> {
  await db('blob_leases')
    .where({ subject: subjectOf(hostId), holder: operationId })
    .delete()
}
