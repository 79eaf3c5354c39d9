import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { unreachableAfterSeconds } from '../../policy/patience.ts'
import type { Db } from '../database.ts'

export interface DueWish {
  plans: Plans
  /** So long after an application's last automatic snapshot the next one is due: a day. */
  everySeconds: number
  /** After a failed one so long, and of a new application not before. */
  retrySeconds: number
  /** Applications that are left out. */
  except?: readonly string[]
}

export interface DueApp {
  id: string
  owner_id: string
}

/**
 * Applications whose automatic snapshot is due, one of each host at most, and none of a host that makes one or is silent: the one
 * that waits longest first. A snapshot that cannot be made holds up the others of its host for `retrySeconds` only. Each has its own time of day, by its id, so that they do not all come at once.
 */
export async function dueApps(db: Db, { plans, everySeconds, retrySeconds, except = [] }: DueWish): Promise<DueApp[]> {
  const { rows } = await db.raw(
    `select distinct on (a.host_id) a.id, a.owner_id
       from apps a
       join users u on u.id = a.owner_id
       join hosts h on h.id = a.host_id
       cross join lateral (
         select (select s.created_at from snapshots s
                  where s.target_type = 'app' and s.target_id = a.id and s.origin = 'automatic' and s.state = 'good'
                  order by s.created_at desc limit 1) as good,
                (select s.created_at from snapshots s
                  where s.target_type = 'app' and s.target_id = a.id and s.origin = 'automatic'
                  order by s.created_at desc limit 1) as tried) last
      cross join lateral (
         select ('x' || left(a.id, 7))::bit(28)::int % :everySeconds as seconds) slot
      where a.id <> all(:except::text[]) and a.provisioned_at is not null and a.lost_with is null and u.blocked_at is null
        and u.plan = any(:paid) and (u.plan_ends_at is null or u.plan_ends_at > now())
        and h.forgotten_at is null and h.last_seen_at > now() - interval '${unreachableAfterSeconds} seconds'
        and coalesce(last.good < now() - make_interval(secs => :everySeconds), true)
        and coalesce(last.tried < now() - make_interval(secs => :retrySeconds), true)
        -- The first one waits for the application's time of day, and for an application that is there to stay.
        and (last.good is not null or a.provisioned_at < least(now() - make_interval(secs => :retrySeconds), to_timestamp(
               floor((extract(epoch from now()) - slot.seconds) / :everySeconds) * :everySeconds + slot.seconds)))
        and not exists (select 1 from operations o
                         where o.target_type = 'app' and o.target_id = a.id and o.state in ('queued', 'running') and o.kind in ('restore', 'delete', 'snapshot'))
        and not exists (select 1 from snapshots s join apps b on b.id = s.target_id
                         where s.state = 'making' and s.origin = 'automatic' and b.host_id = a.host_id
                            and s.created_at > now() - make_interval(secs => :retrySeconds))
      order by a.host_id, last.good nulls first, a.created_at`,
    { paid: paidPlans(plans), everySeconds, retrySeconds, except },
  )
  return rows
}

export interface StuckSnapshot {
  operation_id: string
  app_id: string
  owner_id: string
}

/** Automatic snapshots that are still not made when the next one would be due, and whose end nobody has asked for. */
export async function stuckSnapshots(db: Db, everySeconds: number): Promise<StuckSnapshot[]> {
  const { rows } = await db.raw(
    `select s.operation_id, s.target_id as app_id, s.owner_id
       from snapshots s join operations o on o.id = s.operation_id
      where s.state = 'making' and s.origin = 'automatic' and s.target_type = 'app'
        and s.created_at < now() - make_interval(secs => :everySeconds)
        and o.state in ('queued', 'running') and o.cancel_requested_at is null
      order by s.created_at limit 100`,
    { everySeconds },
  )
  return rows
}
