import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'
import { snapshotLooks } from '../../policy/rounds.ts'
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
export interface SnapshotCandidate extends DueTarget, PostponedTarget {
  host_id: string
  is_due: boolean
}

/** The first that is due of each host, and those that are due later. */
export function sortedOut(rows: readonly SnapshotCandidate[]): { due: DueTarget[]; later: PostponedTarget[] } {
  const first = new Map<string, DueTarget>()
  for (const { id, owner_id, host_id, is_due } of rows)
    if (is_due && !first.has(host_id)) first.set(host_id, { id, owner_id })
  return { due: [...first.values()], later: rows.filter(({ is_due }) => !is_due) }
}

/** The accounts of automatic snapshots that a host `h` is creating, in SQL. One that cannot be created counts for `retrySeconds` only. */
export const making = (table: 'apps' | 'databases'): string =>
  `select coalesce(array_agg(s.owner_id), '{}') as owners from snapshots s join ${table} b on b.id = s.target_id
    where s.state = 'making' and s.origin = 'automatic' and b.host_id = h.id
      and s.created_at > now() - make_interval(secs => :retrySeconds)`

/**
 * Applications whose automatic snapshot is due, up to one of each host, the longest waiting first; none of an unreachable host, or of one
 * that is creating as many as it has slots, or one of the same account. Each application has its
 * own time of day, derived from its id, so that they are spread over the day. Reads those whose `snapshot_due_at` has passed, a limited
 * number of each host, and also returns those of them that are due later.
 */
export async function listAppsDueForSnapshot(
  db: Db,
  { plans, everySeconds, retrySeconds }: DueQuery,
): Promise<{ due: DueTarget[]; later: PostponedTarget[] }> {
  const { rows }: { rows: SnapshotCandidate[] } = await db.raw(
    `select candidates.*, until <= now() as is_due, snapshot_due_at::text as was, until::text as until
       from (select a.id, a.owner_id, a.host_id, a.created_at, a.snapshot_due_at, last.good,
          case
            when not (u.blocked_at is null and u.plan = any(:paid) and (u.plan_ends_at is null or u.plan_ends_at > now()))
              then now() + make_interval(secs => :withoutPlanSeconds)
            when a.provisioned_at is null or a.lost_with is not null then now() + make_interval(secs => :retrySeconds)
            else greatest(last.tried + make_interval(secs => :retrySeconds), case
              when last.good is not null then last.good + make_interval(secs => :everySeconds)
              -- The first one waits for the application's time of day, and until the application has its minimum age.
              else greatest(a.provisioned_at + make_interval(secs => :retrySeconds), to_timestamp(
                (floor((extract(epoch from a.provisioned_at) - slot.seconds) / :everySeconds) + 1) * :everySeconds + slot.seconds)) end)
          end as until
         from hosts h
         cross join lateral (${making('apps')}) making
         cross join lateral (
           select * from apps a
            where a.host_id = h.id and a.snapshot_due_at <= now() and a.owner_id <> all(making.owners)
              and not exists (select 1 from operations o where o.target_type = 'app' and o.target_id = a.id
                                 and o.state in ('queued', 'running') and o.kind in ('restore', 'delete', 'snapshot'))
            order by a.snapshot_due_at limit :atOnce) a
         cross join lateral (select plan, plan_ends_at, blocked_at from users where id = a.owner_id offset 0) u
         cross join lateral (
           select (select s.created_at from snapshots s
                    where s.target_type = 'app' and s.target_id = a.id and s.origin = 'automatic' and s.state = 'good'
                    order by s.created_at desc limit 1) as good,
                  (select s.created_at from snapshots s
                    where s.target_type = 'app' and s.target_id = a.id and s.origin = 'automatic'
                    order by s.created_at desc limit 1) as tried
            offset 0) last -- so that each is read once
         cross join lateral (
           select ('x' || left(a.id, 7))::bit(28)::int % :everySeconds as seconds) slot
        where h.forgotten_at is null and h.last_seen_at > now() - interval '${unreachableAfterSeconds} seconds'
          and cardinality(making.owners) < :snapshotsAtOnce) candidates
      order by host_id, good nulls first, created_at`,
    { paid: paidPlans(plans), everySeconds, retrySeconds, snapshotsAtOnce, ...snapshotLooks },
  )
  return sortedOut(rows)
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

/** Postpones an application by `seconds` from now. */
export async function postponeSnapshot(db: Db, id: string, seconds: number): Promise<void> {
  await db.raw('update apps set snapshot_due_at = now() + make_interval(secs => ?) where id = ?', [seconds, id])
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
