import { paidPlans } from '../../policy/accounts/plans.ts'
import { snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'
import { databaseSnapshotRules, snapshotLooks } from '../../policy/rounds.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import type { Db } from '../database.ts'
import {
  type DueQuery,
  type DueTarget,
  making,
  type PostponedTarget,
  type SnapshotCandidate,
  sortedOut,
} from './automatic-snapshots.ts'

/**
 * Databases whose automatic snapshot is due, up to one of each host; none of an unreachable host, or of one that is creating as many as it
 * has slots, or one of the same account. The accounts of a host alternate, so that one with many databases, or a large one, delays another by
 * one snapshot at most; of an account the longest waiting database comes first. One that fails is tried again after `retrySeconds`, then after twice as long each time, up to a maximum. After the end of a plan
 * snapshots go on for some days. As with applications, each has its own time of day, and those that are due later are also returned.
 */
export async function listDatabasesDueForSnapshot(
  db: Db,
  { plans, everySeconds, retrySeconds }: DueQuery,
): Promise<{ due: DueTarget[]; later: PostponedTarget[] }> {
  const { rows }: { rows: SnapshotCandidate[] } = await db.raw(
    `select candidates.*, until <= now() as is_due, snapshot_due_at::text as was, until::text as until
       from (select d.id, d.owner_id, d.host_id, d.created_at, d.snapshot_due_at, last.good, account.tried,
          case
            when not (${hasSnapshots}) then now() + make_interval(secs => :withoutPlanSeconds)
            when d.provisioned_at is null or d.lost_with is not null then now() + make_interval(secs => :retrySeconds)
            else greatest(
              d.snapshot_tried_at + make_interval(
                secs => greatest(:retrySeconds, least(:maxRetrySeconds, :retrySeconds * power(2, failed.times - 1)))),
              case when last.good is not null then last.good + make_interval(secs => :everySeconds)
              -- The first one waits for the time of day of the database, and until it has its minimum age.
              else greatest(d.provisioned_at + make_interval(secs => :retrySeconds), to_timestamp(
                (floor((extract(epoch from d.provisioned_at) - slot.seconds) / :everySeconds) + 1) * :everySeconds + slot.seconds)) end)
          end as until
         from hosts h
         cross join lateral (${making('databases')}) making
         cross join lateral (
           -- The first of each account, then the second of each: many of one account hide none of another.
           select * from (
             select d.*, row_number() over (partition by d.owner_id order by d.snapshot_due_at) as in_account from databases d
              where d.host_id = h.id and d.snapshot_due_at <= now() and d.owner_id <> all(making.owners)
                and not exists (select 1 from operations o where o.target_type = 'database' and o.target_id = d.id
                                   and o.state in ('queued', 'running') and o.kind in ('restore', 'delete', 'snapshot'))) d
            order by in_account, snapshot_due_at limit :atOnce) d
         cross join lateral (select plan, plan_ends_at, blocked_at from users where id = d.owner_id offset 0) u
         cross join lateral (
           select (select max(o.snapshot_tried_at) from databases o where o.host_id = h.id and o.owner_id = d.owner_id) as tried
            offset 0) account
         cross join lateral (
           select (select s.created_at from snapshots s
                    where s.target_type = 'database' and s.target_id = d.id and s.origin = 'automatic' and s.state = 'good'
                    order by s.created_at desc limit 1) as good
            offset 0) last
         cross join lateral (
           select count(*) as times from snapshots s
            where s.target_type = 'database' and s.target_id = d.id and s.origin = 'automatic' and s.state = 'failed'
              and s.created_at > coalesce(last.good, '-infinity')) failed
         cross join lateral (
           select ('x' || left(d.id, 7))::bit(28)::int % :everySeconds as seconds) slot
        where h.forgotten_at is null and h.last_seen_at > now() - interval '${unreachableAfterSeconds} seconds'
          and cardinality(making.owners) < :snapshotsAtOnce) candidates
      order by host_id, tried nulls first, owner_id, good nulls first, created_at`,
    { paid: paidPlans(plans), everySeconds, retrySeconds, snapshotsAtOnce, ...databaseSnapshotRules, ...snapshotLooks },
  )
  return sortedOut(rows)
}

/** Whether the databases of the account \`u\` have automatic snapshots, in SQL: it has a paid plan, or had one until lately. */
export const hasSnapshots = `u.blocked_at is null and u.plan = any(:paid)
  and (u.plan_ends_at is null or u.plan_ends_at > now() - make_interval(days => :daysAfterPlan))`

/** Records that a snapshot of a database is about to be queued, and postpones the next look at it by `seconds`. */
export async function recordSnapshotTry(db: Db, id: string, seconds: number): Promise<void> {
  await db.raw(
    `update databases set snapshot_due_at = now() + make_interval(secs => ?), snapshot_tried_at = clock_timestamp() where id = ?`,
    [seconds, id],
  )
}
