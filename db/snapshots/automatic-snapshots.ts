import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'
import { automaticSnapshotRules, snapshotLooks } from '../../policy/rounds.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import type { Db } from '../database.ts'
import type { TargetType } from '../operations/operation-kinds.ts'
import { targetTables } from '../operations/transient-states.ts'

export interface DueQuery {
  plans: Plans
  /** Time between automatic snapshots of an application, or database: a day. */
  everySeconds: number
  /** Time before the next attempt after a failed one, and the minimum age of an application, or database. */
  retrySeconds: number
}

/** An application, or database, whose automatic snapshot is due. */
export interface DueTarget {
  id: string
  owner_id: string
}

/** An application, or database, that no round needs to look at before a later time. */
export interface PostponedTarget {
  id: string
  /** The time in its row, and the one to write there, as text with microseconds. */
  was: string
  until: string
}

/** One of those that a round looks at. */
interface SnapshotCandidate extends DueTarget, PostponedTarget {
  host_id: string
  is_due: boolean
}

/** The first that is due of each host, and those that are due later. */
function sortedOut(rows: readonly SnapshotCandidate[]): { due: DueTarget[]; later: PostponedTarget[] } {
  const first = new Map<string, DueTarget>()
  for (const { id, owner_id, host_id, is_due } of rows)
    if (is_due && !first.has(host_id)) first.set(host_id, { id, owner_id })
  return { due: [...first.values()], later: rows.filter(({ is_due }) => !is_due) }
}

/**
 * Whether the account `u` has automatic snapshots, in SQL: it has a paid plan, or had one until lately. Those of databases go on for some
 * days after the end of a plan.
 */
export const hasSnapshots = (type: TargetType): string =>
  `(u.blocked_at is null and u.plan = any(:paid)
    and (u.plan_ends_at is null or u.plan_ends_at > now() - make_interval(days => ${type === 'app' ? 0 : ':daysAfterPlan'})))`

/**
 * Applications, or databases, whose automatic snapshot is due: up to one of each host that is reachable and has a free slot, of an account
 * that has none under way there. One that does not end takes its slot, and the turn of its account, for `retrySeconds` only.
 *
 * The accounts of a host alternate: however many, or large ones, an account has, it delays another one by one snapshot at most. Of an account
 * the one that waits longest comes first. One that failed is tried again after `retrySeconds`, then each time after twice as long, up to a
 * maximum. First ones are spread over the day, by times that derive from ids.
 *
 * Reads those whose `snapshot_due_at` has passed, a limited number of each host. Those of them that are due later are returned too.
 */
export async function listDueForSnapshot(
  db: Db,
  { plans, everySeconds, retrySeconds }: DueQuery,
  type: TargetType = 'app',
): Promise<{ due: DueTarget[]; later: PostponedTarget[] }> {
  const table = targetTables[type]
  const { rows }: { rows: SnapshotCandidate[] } = await db.raw(
    `select candidates.*, until <= now() as is_due, snapshot_due_at::text as was, until::text as until
       from (select d.id, d.owner_id, d.host_id, d.created_at, d.snapshot_due_at, last.good, account.tried,
          case
            when not ${hasSnapshots(type)} then now() + make_interval(secs => :withoutPlanSeconds)
            when d.provisioned_at is null or d.lost_with is not null then now() + make_interval(secs => :retrySeconds)
            else greatest(
              d.snapshot_tried_at + make_interval(
                secs => greatest(:retrySeconds, least(:maxRetrySeconds, :retrySeconds * power(2, failed.times - 1)))),
              case when last.good is not null then last.good + make_interval(secs => :everySeconds)
              -- The first one waits for the time of day of its target, and until that has its minimum age.
              else greatest(d.provisioned_at + make_interval(secs => :retrySeconds), to_timestamp(
                (floor((extract(epoch from d.provisioned_at) - slot.seconds) / :everySeconds) + 1) * :everySeconds + slot.seconds)) end)
          end as until
         from hosts h
         cross join lateral (
           select coalesce(array_agg(s.owner_id), '{}') as owners from snapshots s join ${table} b on b.id = s.target_id
            where s.state = 'making' and s.origin = 'automatic' and b.host_id = h.id
              and s.created_at > now() - make_interval(secs => :retrySeconds)) making
         cross join lateral (
           -- The first of each account, then the second of each: many of one account hide none of another.
           select * from (
             select d.id, d.owner_id, d.host_id, d.created_at, d.snapshot_due_at, d.snapshot_tried_at, d.provisioned_at, d.lost_with,
                    row_number() over (partition by d.owner_id order by d.snapshot_due_at) as in_account from ${table} d
              where d.host_id = h.id and d.snapshot_due_at <= now() and d.owner_id <> all(making.owners)
                and not exists (select 1 from operations o where o.target_type = :type and o.target_id = d.id
                                   and o.state in ('queued', 'running') and o.kind in ('restore', 'delete', 'snapshot'))) d
            order by in_account, snapshot_due_at limit :atOnce) d
         cross join lateral (select plan, plan_ends_at, blocked_at from users where id = d.owner_id offset 0) u
         cross join lateral (
           select (select max(o.snapshot_tried_at) from ${table} o where o.host_id = h.id and o.owner_id = d.owner_id) as tried
            offset 0) account
         cross join lateral (
           select (select s.created_at from snapshots s
                    where s.target_type = '${type}' and s.target_id = d.id and s.origin = 'automatic' and s.state = 'good'
                    order by s.created_at desc limit 1) as good
            offset 0) last -- so that it is read once
         cross join lateral (
           select count(*) as times from snapshots s
            where s.target_type = '${type}' and s.target_id = d.id and s.origin = 'automatic' and s.state = 'failed'
              and s.created_at > coalesce(last.good, '-infinity')) failed
         cross join lateral (
           select ('x' || left(d.id, 7))::bit(28)::int % :everySeconds as seconds) slot
        where h.forgotten_at is null and h.last_seen_at > now() - interval '${unreachableAfterSeconds} seconds'
          and cardinality(making.owners) < :snapshotsAtOnce) candidates
      order by host_id, tried nulls first, good nulls first, created_at`,
    {
      ...{ type, paid: paidPlans(plans), everySeconds, retrySeconds, snapshotsAtOnce },
      ...automaticSnapshotRules,
      ...snapshotLooks,
    },
  )
  return sortedOut(rows)
}

/** Records that a snapshot is about to be queued, and postpones the next look at its application, or database, by `seconds`. */
export async function recordSnapshotTry(db: Db, type: TargetType, id: string, seconds: number): Promise<void> {
  await db.raw(
    `update ${targetTables[type]} set snapshot_due_at = now() + make_interval(secs => ?), snapshot_tried_at = clock_timestamp() where id = ?`,
    [seconds, id],
  )
}

/**
 * Postpones these applications, or databases; one that was changed meanwhile, or is locked, stays as it is. Call it last in a transaction:
 * it waits for no locks.
 */
export async function postponeSnapshots(
  db: Db,
  later: readonly PostponedTarget[],
  type: TargetType = 'app',
): Promise<void> {
  if (later.length === 0) return
  await db.raw(
    `update ${targetTables[type]} a set snapshot_due_at = l.until
       from (select a.id, l.was, l.until
               from unnest(cast(:ids as text[]), cast(:was as timestamptz[]), cast(:until as timestamptz[])) as l (id, was, until)
               join ${targetTables[type]} a on a.id = l.id and a.snapshot_due_at = l.was
              order by a.id for no key update of a skip locked) l
      where a.id = l.id`,
    { ids: later.map(({ id }) => id), was: later.map(({ was }) => was), until: later.map(({ until }) => until) },
  )
}

export interface StuckSnapshot {
  operation_id: string
  target_id: string
  owner_id: string
}

/** Automatic snapshots that are still unfinished when the next one would be due, and were not cancelled. */
export async function listStuckSnapshots(
  db: Db,
  everySeconds: number,
  type: TargetType = 'app',
): Promise<StuckSnapshot[]> {
  const { rows } = await db.raw(
    `select s.operation_id, s.target_id, s.owner_id
       from snapshots s join operations o on o.id = s.operation_id
      where s.state = 'making' and s.origin = 'automatic' and s.target_type = :type
        and s.created_at < now() - make_interval(secs => :everySeconds)
        and o.state in ('queued', 'running') and o.cancel_requested_at is null
      order by s.created_at limit 100`,
    { everySeconds, type },
  )
  return rows
}
