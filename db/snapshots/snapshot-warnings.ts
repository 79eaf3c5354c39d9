import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { automaticSnapshotRules, snapshotLooks } from '../../policy/rounds.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import { queueMail } from '../accounts/mails.ts'
import type { Db } from '../database.ts'
import type { TargetType } from '../operations/operation-kinds.ts'
import { targetTables } from '../operations/transient-states.ts'
import { hasSnapshots } from './automatic-snapshots.ts'

/** Max applications, or databases, in one round. */
const maxRows = 100

interface Unsaved {
  id: string
  name: string
  owner_id: string
  /** Whether it is to have snapshots, and those that were tried since the last good one fail. */
  failing: boolean
  days: number
}

/**
 * Warns owners of applications, or databases, whose snapshots have failed for days, once until there is a good one; resolves to the ids of
 * these. Others are looked at again later: those that have no snapshots, as their account has no plan, and those that none was tried of, as
 * their host is silent, or as the platform was off.
 */
export async function queueSnapshotWarnings(trx: Db, plans: Plans, type: TargetType): Promise<string[]> {
  const table = targetTables[type]
  const { rows }: { rows: Unsaved[] } = await trx.raw(
    `select d.id, d.name, d.owner_id,
            d.provisioned_at is not null and d.lost_with is null and d.desired_state <> 'deleted' and ${hasSnapshots(type)}
              and d.snapshot_tried_at > coalesce(last.good, '-infinity')
              -- Not while one is being made that may succeed.
              and not exists (
                select 1 from snapshots s where s.target_type = '${type}' and s.target_id = d.id and s.state = 'making'
                   and s.created_at > now() - make_interval(mins => :tryMinutes))
              and exists (
                select 1 from hosts h where h.id = d.host_id and h.forgotten_at is null
                   and h.last_seen_at > now() - interval '${unreachableAfterSeconds} seconds') as failing,
            greatest(:warnDays, floor(extract(epoch from now() - coalesce(last.good, d.provisioned_at)) / 86400))::integer as days
       from ${table} d join users u on u.id = d.owner_id
       cross join lateral (
         select (select s.created_at from snapshots s
                  where s.target_type = '${type}' and s.target_id = d.id and s.state = 'good' order by s.created_at desc limit 1) as good
          offset 0) last -- so that it is read once
      where d.snapshot_warn_at <= now()
      order by d.snapshot_warn_at limit :maxRows for no key update of d skip locked`,
    { paid: paidPlans(plans), ...automaticSnapshotRules, maxRows },
  )
  const warned: string[] = []
  for (const { id, name, owner_id: userId, failing, days } of rows) {
    const again = { secs: failing ? null : snapshotLooks.withoutPlanSeconds, id }
    await trx.raw(`update ${table} set snapshot_warn_at = now() + make_interval(secs => :secs) where id = :id`, again)
    if (!failing) continue
    if (type === 'app') await queueMail(trx, { userId, template: 'app-snapshots-failing', fields: { app: name, days } })
    else await queueMail(trx, { userId, template: 'database-snapshots-failing', fields: { database: name, days } })
    warned.push(id)
  }
  return warned
}

/** Records that an application, or database, has a good snapshot: its owner is warned when there is no other one for days. */
export async function postponeSnapshotWarning(trx: Db, type: TargetType, id: string): Promise<void> {
  await trx.raw(`update ${targetTables[type]} set snapshot_warn_at = now() + make_interval(days => ?) where id = ?`, [
    automaticSnapshotRules.warnDays,
    id,
  ])
}
