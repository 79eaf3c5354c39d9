import { type Plan, type Plans, paidPlans } from './plans.ts'

/** What an account has of what a plan grants. */
export interface PlanUsage {
  /** Reserved by its applications, whether they run or not. */
  memoryMb: number
  workspaces: number
  /** People in its largest workspace, its owner included; 0 without one. */
  workspaceMembers: number
  customDomains: number
}

/** The next lower plan of the table; null from the lowest that is paid for, from none, and from one that the table has lost. */
export function planBelow(plans: Plans, name: string): string | null {
  const paid = paidPlans(plans)
  return paid[paid.indexOf(name) - 1] ?? null
}

/** Why a plan is too small for what an account has, in words; null when it is not. */
export function excessOf(plan: Plan, usage: PlanUsage): string | null {
  if (usage.memoryMb > plan.memoryMb)
    return `Applications have ${usage.memoryMb} MB; the lower plan has ${plan.memoryMb} MB.`
  if (usage.workspaces > plan.workspaces)
    return `You own ${usage.workspaces} workspaces; the lower plan has ${plan.workspaces}.`
  if (usage.workspaceMembers > plan.workspaceMembers)
    return `A workspace has ${usage.workspaceMembers} members; the lower plan has ${plan.workspaceMembers}.`
  if (usage.customDomains > 0 && !hasCustomDomains(plan))
    return `${usage.customDomains} applications have a custom domain; the lower plan has none.`
  return null
}

/** Contract 3.7: custom domains come with the plans that workspaces come with. */
const hasCustomDomains = ({ workspaces }: Plan): boolean => workspaces > 0
