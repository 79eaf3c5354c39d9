import type { Caller } from '../pipeline/authenticate.ts'

/** Contract 3.1. `duration` is the time at which the plan ends, in ms; null for a plan without end. */
export const userView = ({ user, plan, planName }: Caller, usedMb: number) => ({
  id: user.id,
  name: user.name,
  email: user.email,
  locale: user.locale,
  plan: {
    name: planName,
    memory: { limit: plan.memoryMb, available: Math.max(0, plan.memoryMb - usedMb), used: usedMb },
    duration: user.plan_ends_at?.getTime() ?? null,
  },
  created_at: user.created_at.toISOString(),
})
