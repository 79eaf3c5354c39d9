import { excessOf, type PlanUsage, planBelow } from '../../policy/accounts/downgrades.ts'
import { type Plans, planOf } from '../../policy/accounts/plans.ts'
import { downgradeTerms } from '../../policy/accounts/sign-in-terms.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { retentionTimes } from '../../policy/retention.ts'
import { type Db, transaction } from '../database.ts'
import { listGroups } from '../domains/domains.ts'
import { deleteExpired } from '../expired-rows.ts'
import { readUsage } from '../objects/blob-usage.ts'
import { announceOperationEnd } from '../operations/operations.ts'
import { usedMemoryMb } from './account-reservations.ts'
import type { UserRow } from './accounts.ts'
import { queueMail } from './mails.ts'

export interface DowngradeRow {
  id: string
  user_id: string
  plan_from: string
  plan_to: string
  state: 'pending' | 'confirmed' | 'applied' | 'refused' | 'expired'
  expires_at: Date
}

/**
 * Starts the step to the next lower plan: its code is mailed on commit, and works for 10 minutes. Throws DOWNGRADE_NOT_ALLOWED, and
 * CONFIRM_CODE_SENT while an earlier code still works.
 */
export async function beginDowngrade(db: Db, plans: Plans, userId: string): Promise<void> {
  await transaction(db, async trx => {
    const { from, to } = await allowedStep(trx, plans, userId)
    const open = await openDowngrade(trx, userId)
    if (open?.state === 'confirmed') throw new CodedError('CONFIRM_CODE_SENT', undefined, 5)
    if (open && open.left_ms > 0) throw new CodedError('CONFIRM_CODE_SENT', undefined, Math.ceil(open.left_ms / 1000))
    if (open) await end(trx, open, 'expired')
    const id = newId()
    await trx.raw(
      `insert into downgrades (id, user_id, plan_from, plan_to, expires_at)
       values (:id, :userId, :from, :to, now() + make_interval(secs => :seconds))`,
      { id, userId, from, to, seconds: downgradeTerms.seconds },
    )
    await queueMail(trx, { userId, template: 'downgrade-code', fields: { downgrade: id, from, to } })
  })
}

/**
 * Spends an attempt and, when the code is right, confirms the step, once. Resolves to its id. Throws CONFIRM_CODE_INVALID for every
 * kind of wrong code, and DOWNGRADE_NOT_ALLOWED; either leaves the code as it is.
 */
export async function confirmDowngrade(
  db: Db,
  plans: Plans,
  userId: string,
  isRight: (id: string) => boolean,
): Promise<string> {
  // Before the code is checked: where nothing can be confirmed, no code is right.
  await transaction(db, trx => allowedStep(trx, plans, userId))
  const [attempted] = await db('downgrades')
    .where({ user_id: userId, state: 'pending' })
    .where('attempts', '<', downgradeTerms.attempts)
    .whereRaw('expires_at > now()')
    .increment('attempts')
    .returning('id')
  if (!attempted || !isRight(attempted.id)) throw new CodedError('CONFIRM_CODE_INVALID')
  return transaction(db, async trx => {
    await allowedStep(trx, plans, userId)
    const confirmed = await trx('downgrades')
      .where({ id: attempted.id, state: 'pending' })
      .update({ state: 'confirmed', confirmed_at: trx.fn.now() })
    if (confirmed === 0) throw new CodedError('CONFIRM_CODE_INVALID')
    return attempted.id
  })
}

/**
 * Does what is due for the open step of an account: applies it when it is confirmed and still allowed, refuses it when it is no longer
 * allowed, ends it when its code has expired. Resolves to the milliseconds until that, null when no step is open. May be repeated.
 */
export async function settleDowngrade(db: Db, plans: Plans, userId: string): Promise<number | null> {
  return transaction(db, async trx => {
    const step = await allowedStep(trx, plans, userId).catch(unlessRefused)
    const open = await openDowngrade(trx, userId)
    if (!open) return null
    if (open.state === 'pending' && open.left_ms > 0) return open.left_ms
    if (open.state === 'pending') await end(trx, open, 'expired')
    else if (step?.from === open.plan_from && step.to === open.plan_to) {
      await trx('users').where({ id: userId }).update({ plan: step.to })
      await end(trx, open, 'applied')
    } else {
      const { plan_from: from, plan_to: to } = open
      await queueMail(trx, { userId, template: 'downgrade-refused', fields: { from, to } })
      await end(trx, open, 'refused')
    }
    return null
  })
}

export async function findDowngrade(db: Db, id: string): Promise<DowngradeRow | undefined> {
  return db('downgrades').where({ id }).first()
}

export interface OverdueDowngrade {
  userId: string
  /** Since when it is due, in seconds. */
  seconds: number
}

/** Accounts whose open step has been due for `seconds` and was not settled, except these accounts; up to 500. */
export async function listOverdueDowngrades(
  db: Db,
  seconds: number,
  except: readonly string[] = [],
): Promise<OverdueDowngrade[]> {
  const { rows } = await db.raw(
    `select user_id as "userId",
            extract(epoch from now() - case state when 'confirmed' then confirmed_at else expires_at end)::float8 as seconds
       from downgrades
      where (state = 'confirmed' and confirmed_at < now() - make_interval(secs => :seconds)
             or state = 'pending' and expires_at < now() - make_interval(secs => :seconds))
        and user_id <> all(:except::text[])
      limit 500`,
    { seconds, except },
  )
  return rows
}

export function sweepDowngrades(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'downgrades',
    when: `old.ended_at < now() - interval '${retentionTimes.downgradeDays} days'`,
  })
}

/** Locks the account, because memory and workspaces are reserved under the same lock. Throws DOWNGRADE_NOT_ALLOWED with the reason. */
async function allowedStep(trx: Db, plans: Plans, userId: string): Promise<{ from: string; to: string }> {
  const user: UserRow | undefined = await trx('users').where({ id: userId }).forUpdate().first()
  const from = user && planOf(plans, user, new Date()).name
  const to = from && planBelow(plans, from)
  if (!to) throw new CodedError('DOWNGRADE_NOT_ALLOWED', 'There is no lower plan to go to.')
  const excess = excessOf(plans.get(to)!, await usageOf(trx, userId))
  if (excess) throw new CodedError('DOWNGRADE_NOT_ALLOWED', excess)
  return { from, to }
}

function unlessRefused(error: unknown): null {
  if (error instanceof CodedError) return null
  throw error
}

/** Locks the workspaces: no member is added until the transaction ends. */
async function usageOf(trx: Db, userId: string): Promise<PlanUsage> {
  const workspaces = await trx('workspaces').where({ owner_id: userId }).orderBy('id').forUpdate().select('id')
  const { rows } = await trx.raw(
    `select (select count(*) from apps where owner_id = :userId and custom_domain is not null)::int as domains,
            (select count(*) from databases where owner_id = :userId)::int as databases,
            (select max(members) from (select count(m.user_id) + 1 as members from workspaces w
               left join workspace_members m on m.workspace_id = w.id
              where w.owner_id = :userId group by w.id) sizes)::int as members`,
    { userId },
  )
  return {
    memoryMb: await usedMemoryMb(trx, userId),
    databases: rows[0].databases,
    workspaces: workspaces.length,
    workspaceMembers: rows[0].members ?? 0,
    customDomains: rows[0].domains,
    balancerGroups: (await listGroups(trx, userId)).length,
    storedBytes: (await readUsage(trx, userId)).bytes,
  }
}

type OpenDowngrade = DowngradeRow & { left_ms: number }

async function openDowngrade(trx: Db, userId: string): Promise<OpenDowngrade | undefined> {
  const { rows } = await trx.raw(
    `select *, ceil(extract(epoch from expires_at - now()) * 1000)::int as left_ms
       from downgrades where user_id = ? and state in ('pending', 'confirmed') for update`,
    [userId],
  )
  return rows[0]
}

/** Waiting callers are notified on the channel for ends of operations. */
async function end(trx: Db, { id }: DowngradeRow, state: 'applied' | 'refused' | 'expired'): Promise<void> {
  await trx('downgrades').where({ id }).update({ state, ended_at: trx.fn.now() })
  await announceOperationEnd(trx, id)
}
