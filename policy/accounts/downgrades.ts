import { GiB } from '../../lib/bytes.ts'
import { includesCustomDomains, includesDatabases, type Plan, type Plans, paidPlans } from './plans.ts'

/** What an account uses of its plan. */
export interface PlanUsage {
  /** Reserved by its applications and databases, whether they run or not. */
  memoryMb: number
  databases: number
  workspaces: number
  /** People in its largest workspace, its owner included; 0 without one. */
  workspaceMembers: number
  customDomains: number
  balancerGroups: number
  /** Bytes in its objects. */
  storedBytes: number
}

/** The next lower paid plan; null for the lowest paid plan, for `free`, and for plans that are not in the table. */
export function planBelow(plans: Plans, name: string): string | null {
  const paid = paidPlans(plans)
  return paid[paid.indexOf(name) - 1] ?? null
}

/** Why a plan is too small for an account, as text; null when it is large enough. */
export function excessOf(plan: Plan, usage: PlanUsage): string | null {
  if (usage.memoryMb > plan.memoryMb)
    return `Applications and databases have ${usage.memoryMb} MB; the lower plan has ${plan.memoryMb} MB.`
  if (usage.databases > 0 && !includesDatabases(plan))
    return `You have ${usage.databases} databases; the lower plan includes none. Delete them first.`
  if (usage.workspaces > plan.workspaces)
    return `You own ${usage.workspaces} workspaces; the lower plan has ${plan.workspaces}.`
  if (usage.workspaceMembers > plan.workspaceMembers)
    return `A workspace has ${usage.workspaceMembers} members; the lower plan has ${plan.workspaceMembers}.`
  if (usage.customDomains > 0 && !includesCustomDomains(plan))
    return `${usage.customDomains} applications have a custom domain; the lower plan has none.`
  if (usage.balancerGroups > plan.balancerGroups)
    return `You have ${usage.balancerGroups} load balancers; the lower plan has ${plan.balancerGroups}.`
  if (usage.storedBytes > plan.blobGb * GiB)
    return `Your objects take ${shownGb(usage.storedBytes)} GB; the lower plan includes ${plan.blobGb} GB.`
  return null
}

/** Rounded up, so that a byte too many does not look like what is included. */
const shownGb = (bytes: number): number => Math.ceil((bytes / GiB) * 100) / 100
