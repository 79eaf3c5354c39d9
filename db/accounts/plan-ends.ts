import { includesDatabases, type Plan, type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { planExpiryActor } from '../../policy/accounts/suspension.ts'
import { retentionTimes } from '../../policy/retention.ts'
import type { Db } from '../database.ts'
import type { OperationTarget, TargetType } from '../operations/operation-kinds.ts'
import { enqueueOperation } from '../operations/operations.ts'
import { targetTables } from '../operations/transient-states.ts'
import { queueMail } from './mails.ts'

/** Max accounts, applications or databases in one round. */
const maxRows = 500

/** Databases that a mail names; of more it gives the number. */
const maxNames = 10

/** The databases of the account `u` that the end of its plan stops, as columns of a query. */
function stoppedDatabases(free: Plan): string {
  return `cross join lateral (
        select coalesce(string_agg(name, ', ' order by created_at) filter (where place <= ${maxNames}), '') as databases,
               count(*)::integer as database_count
          from (select name, created_at, row_number() over (order by created_at) as place from databases d
                 where d.owner_id = u.id and d.desired_state = 'running' and d.lost_with is null and not d.accepting
                   and ${excessOf(free).database}) named) stopped`
}

/** What of the account `u` may not run with the free plan, in SQL. */
function excessOf(free: Plan): Record<TargetType, string> {
  const tooLarge = `(
    coalesce((select sum(b.ram_mb) from apps b join hosts h on h.id = b.host_id
               where b.owner_id = u.id and h.forgotten_at is null), 0)
    + coalesce((select sum(b.reserved_mb) from databases b join hosts h on h.id = b.host_id
                 where b.owner_id = u.id and h.forgotten_at is null), 0)) > ${free.memoryMb}`
  return { app: tooLarge, database: includesDatabases(free) ? tooLarge : 'true' }
}

/** Mails the latest notice that is due, each notice once for each end of a plan. `notices` are seconds before the end. */
export async function queueEndNotices(trx: Db, plans: Plans, notices: readonly number[]): Promise<number> {
  const { rows } = await trx.raw(
    `select u.id, u.plan, to_char(u.plan_ends_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as ends_at, occasion.once, stopped.*
       from users u
      ${stoppedDatabases(plans.get('free')!)}
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
  for (const { id: userId, plan, ends_at: endsAt, once, databases, database_count: databaseCount } of rows)
    await queueMail(trx, { userId, template: 'plan-ending', fields: { plan, endsAt, databases, databaseCount }, once })
  return rows.length
}

/** Mails that a plan has ended, once for each end. */
export async function queueEndedNotices(trx: Db, plans: Plans): Promise<number> {
  const { rows } = await trx.raw(
    `select u.id, u.plan, occasion.once, stopped.*
       from users u
      ${stoppedDatabases(plans.get('free')!)}
      cross join lateral (select concat_ws('/', 'plan-ended', u.id, extract(epoch from u.plan_ends_at)::bigint) as once) occasion
      where u.plan = any(:paid)
        and u.plan_ends_at <= now() and u.plan_ends_at > now() - make_interval(days => :noticeDays)
        and not exists (select from mails m where m.once = occasion.once)
      limit :maxRows`,
    { paid: paidPlans(plans), noticeDays: retentionTimes.planEndDays, maxRows },
  )
  for (const { id: userId, plan, once, databases, database_count: databaseCount } of rows)
    await queueMail(trx, { userId, template: 'plan-ended', fields: { plan, databases, databaseCount }, once })
  return rows.length
}

/** An application or database whose stop was queued. */
export interface StoppedTarget extends OperationTarget {
  owner_id: string
}

/**
 * Queues a stop of every application and database that is to run although the plan of its account has ended
 * (policy/accounts/suspension.ts), unless a stop is queued already. A failed stop is queued again after `retrySeconds`.
 */
export async function queueSuspensions(trx: Db, plans: Plans, retrySeconds: number): Promise<StoppedTarget[]> {
  const values = { actor: planExpiryActor, retrySeconds, maxRows }
  const excess = excessOf(plans.get('free')!)
  const stopped: StoppedTarget[] = []
  for (const type of ['app', 'database'] as const) {
    const { rows }: { rows: { id: string; owner_id: string }[] } = await trx.raw(
      `select t.id, t.owner_id
         from ${targetTables[type]} t join users u on u.id = t.owner_id
        where u.plan_ends_at <= now() and t.desired_state = 'running' and t.lost_with is null and ${excess[type]}
          and not exists (select from operations o
                           where o.target_type = '${type}' and o.target_id = t.id
                             and (o.state in ('queued', 'running') and o.kind in ('create', 'stop', 'delete')
                                  or o.actor = :actor and o.created_at > now() - make_interval(secs => :retrySeconds)))
        limit :maxRows`,
      values,
    )
    for (const { id, owner_id } of rows) stopped.push({ type, id, owner_id })
  }
  for (const { type: targetType, id: targetId, owner_id: ownerId } of stopped)
    await enqueueOperation(trx, { targetType, targetId, kind: 'stop', ownerId, actor: planExpiryActor })
  return stopped
}
