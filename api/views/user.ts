import type { UserRow } from '../../db/accounts/accounts.ts'
import type { Plan } from '../../policy/accounts/plans.ts'

/** Contract 3.1. `duration` is the time at which the plan ends, in ms; null for a plan without end. */
export const userView = (user: UserRow, { name, plan }: { name: string; plan: Plan }, usedMb: number) => ({
  id: user.id,
  name: user.name,
  email: user.email,
  locale: user.locale,
  plan: {
    name,
    memory: { limit: plan.memoryMb, available: Math.max(0, plan.memoryMb - usedMb), used: usedMb },
    duration: user.plan_ends_at?.getTime() ?? null,
  },
  created_at: user.created_at.toISOString(),
})
