import type { Plans } from './plans.ts'

/** Who stops the applications of an account whose plan has ended. */
export const planExpiryActor = 'plan-expiry'

/** An account is told that its plan ends so long before, in seconds: a week, and a day. */
export const endNotices: readonly number[] = [7 * 86_400, 86_400]

/**
 * Whether applications may not run: the plan has ended, and they have more memory than accounts without a plan. A plan that an
 * operator takes out of the table suspends nobody.
 */
export function isSuspended(
  plans: Plans,
  { plan_ends_at: endsAt }: { plan_ends_at: Date | null },
  usedMemoryMb: number,
  now: Date,
): boolean {
  return endsAt !== null && endsAt <= now && usedMemoryMb > plans.get('free')!.memoryMb
}
