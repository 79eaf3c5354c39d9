import { includesDatabases, type Plans } from './plans.ts'

/** The actor that stops applications and databases of accounts whose plan has ended. */
export const planExpiryActor = 'plan-expiry'

/** When an account is notified that its plan ends, in seconds before the end: a week, and a day. */
export const endNotices: readonly number[] = [7 * 86_400, 86_400]

/**
 * Whether applications must not run: the plan has ended, and they have more memory than the free plan. A plan that an operator removes
 * from the table suspends no account.
 */
export function isSuspended(
  plans: Plans,
  { plan_ends_at: endsAt }: { plan_ends_at: Date | null },
  usedMemoryMb: number,
  now: Date,
): boolean {
  return endsAt !== null && endsAt <= now && usedMemoryMb > plans.get('free')!.memoryMb
}

/** As `isSuspended`, of databases: they also need a plan that includes them. */
export function areDatabasesSuspended(
  plans: Plans,
  account: { plan_ends_at: Date | null },
  usedMemoryMb: number,
  now: Date,
): boolean {
  const hasEnded = account.plan_ends_at !== null && account.plan_ends_at <= now
  return isSuspended(plans, account, usedMemoryMb, now) || (hasEnded && !includesDatabases(plans.get('free')!))
}
