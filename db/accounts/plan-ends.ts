import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { planExpiryActor } from '../../policy/accounts/suspension.ts'
import { retentionTimes } from '../../policy/retention.ts'
import type { Db } from '../database.ts'
import { enqueueOperation } from '../operations/operations.ts'
import { queueMail } from './mails.ts'

/** Max accounts or applications in one round. */
const maxRows = 500

/** Mails the latest notice that is due, each notice once for each end of a plan. `notices` are seconds before the end. */
export async function queueEndNotices(trx: Db, plans: Plans, notices: readonly number[]): Promise<number> {
  const { rows } = await trx.raw(
    `select u.id, u.plan, to_char(u.plan_ends_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as ends_at, occasion.once
       from users u
      cross join lateral (
        select min(seconds) as seconds from unnest(:notices::int[]) seconds
         where u.plan_ends_at <= now() + make_interval(secs => seconds)) due
      cross join lateral (
        select concat_ws('/', 'plan-ending', u.id, extract(epoch from u.plan_ends_at)::bigint, due.seconds) as once) occasion
      where u.plan = any(:paid) and u.plan_ends_at > now() and u.plan_ends_at <= now() + make_interval(secs => :furthest)
        and due.seconds is not null
        and not exists (select from mails m where m.once = occasion.once)
      limit :maxRows`,
    { notices: [...notices], furthest: Math.max(...notices), paid: paidPlans(plans), maxRows },
  )
  for (const { id: userId, plan, ends_at: endsAt, once } of rows)
    await queueMail(trx, { userId, template: 'plan-ending', fields: { plan, endsAt }, once })
  return rows.length
}

/** Mails that a plan has ended, once for each end. */
export async function queueEndedNotices(trx: Db, plans: Plans): Promise<number> {
  const { rows } = await trx.raw(
    `select u.id, u.plan, occasion.once
       from users u
      cross join lateral (select concat_ws('/', 'plan-ended', u.id, extract(epoch from u.plan_ends_at)::bigint) as once) occasion
      where u.plan = any(:paid)
        and u.plan_ends_at <= now() and u.plan_ends_at > now() - make_interval(days => :noticeDays)
        and not exists (select from mails m where m.once = occasion.once)
      limit :maxRows`,
    { paid: paidPlans(plans), noticeDays: retentionTimes.planEndDays, maxRows },
  )
  for (const { id: userId, plan, once } of rows)
    await queueMail(trx, { userId, template: 'plan-ended', fields: { plan }, once })
  return rows.length
}

export interface StoppedApp {
  id: string
  owner_id: string
}

/**
 * Queues a stop of every application that is to run although the plan of its account has ended (policy/accounts/suspension.ts), unless
 * a stop is queued already. A failed stop is queued again after `retrySeconds`.
 */
export async function queueSuspensions(trx: Db, plans: Plans, retrySeconds: number): Promise<StoppedApp[]> {
  const { rows } = await trx.raw(
    `select a.id, a.owner_id
       from apps a join users u on u.id = a.owner_id
      where u.plan_ends_at <= now() and a.desired_state = 'running' and a.lost_with is null
        and (select sum(b.ram_mb) from apps b join hosts h on h.id = b.host_id
              where b.owner_id = u.id and h.forgotten_at is null) > :freeMb
        and not exists (select from operations o
                         where o.target_type = 'app' and o.target_id = a.id
                           and (o.state in ('queued', 'running') and o.kind in ('create', 'stop', 'delete')
                                or o.actor = :actor and o.created_at > now() - make_interval(secs => :retrySeconds)))
      limit :maxRows`,
    { freeMb: plans.get('free')!.memoryMb, actor: planExpiryActor, retrySeconds, maxRows },
  )
  for (const { id, owner_id: ownerId } of rows as StoppedApp[])
    await enqueueOperation(trx, { targetId: id, kind: 'stop', ownerId, actor: planExpiryActor })
  return rows
}
