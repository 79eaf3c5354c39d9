import { renewalDelayMs } from '../../policy/databases/certificate-terms.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import type { Db } from '../database.ts'
import { enqueueOperation } from '../operations/operations.ts'

/** The actor of automatic renewals. */
const renewalActor = 'renewal'

export interface QueuedRenewal {
  id: string
  /** Renewals in a row that have not succeeded, this one included. */
  failures: number
}

/**
 * Queues the renewal of certificates that are due at `now`, of up to `limit` databases that run and have nothing else to do, the longest
 * due first. The next attempt of each comes later each time; success sets the next date (`recordCertificateServed`).
 */
export async function queueRenewals(trx: Db, limit: number, now: Date): Promise<QueuedRenewal[]> {
  const { rows }: { rows: { id: string; owner_id: string; renewal_failures: number }[] } = await trx.raw(
    `select d.id, d.owner_id, d.renewal_failures from databases d join hosts h on h.id = d.host_id
      where d.certificate_renew_at <= ? and d.status = 'running' and d.desired_state = 'running' and d.lost_with is null
        and h.forgotten_at is null and h.last_seen_at > now() - make_interval(secs => ?)
        and not exists (select from operations o where o.target_type = 'database' and o.target_id = d.id
                           and o.state in ('accepting', 'queued', 'running'))
      order by d.certificate_renew_at limit ? for update of d skip locked`,
    [now, unreachableAfterSeconds, limit],
  )
  const queued: QueuedRenewal[] = []
  for (const { id, owner_id: ownerId, renewal_failures: before } of rows) {
    const failures = before + 1
    const certificate_renew_at = new Date(now.getTime() + renewalDelayMs(failures))
    await trx('databases').where({ id }).update({ certificate_renew_at, renewal_failures: failures })
    const target = { targetType: 'database', targetId: id } as const
    await enqueueOperation(trx, { ...target, kind: 'certify', ownerId, actor: renewalActor })
    queued.push({ id, failures })
  }
  return queued
}

/** Whether any database has a certificate: only then the installation has an authority to renew. */
export async function hasCertificates(db: Db): Promise<boolean> {
  return (await db('databases').whereNotNull('certificate_ends_at').first(db.raw('1 as one'))) !== undefined
}
