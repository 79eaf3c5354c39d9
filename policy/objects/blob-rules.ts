import { GiB } from '../../lib/bytes.ts'

/** A rule for uploads below a prefix (contract 7.28). Null = not set by the rule. */
export interface RuleFields {
  /** Folders, ending in "/". */
  prefix: string
  private: boolean | null
  /** A duration, as in uploads. */
  expire: string | null
  /** Bytes. */
  max_size: number | null
  /** Lower case, without their dot. */
  extensions: string[] | null
  cache_control: string | null
  delete_after_days: number | null
}

export interface Rule extends RuleFields {
  created_at: Date
  /** When it starts to delete; null without `delete_after_days`. */
  active_from: Date | null
}

/** The rule for a name (an id without its account, with folders): the one with the longest matching prefix. */
export function ruleFor<R extends { prefix: string }>(rules: readonly R[], key: string): R | undefined {
  const matching = rules.filter(rule => key.startsWith(rule.prefix))
  return matching.sort((a, b) => b.prefix.length - a.prefix.length)[0]
}

const countByTier: Record<string, number> = { hobby: 5, standard: 5, pro: 10, enterprise: 20 }

/** Max rules of an account in this tier (contract 11.2). */
export const maxRules = (tier: string): number => countByTier[tier] ?? 0

/** Max rules of an account in any tier. */
export const maxRulesOfAnyTier = Math.max(...Object.values(countByTier))

/** A rule starts to delete this long after it was saved, so that mistakes can be noticed. */
export const ruleRestSeconds = 24 * 3600

const compared = ['private', 'expire', 'max_size', 'extensions', 'cache_control', 'delete_after_days'] as const

/** Range of `delete_after_days`; values below `usualDeletionDays` require certain plans. */
export const deletionDays = { min: 1, max: 3650 }
export const usualDeletionDays = 7

/** Range of `max_size`, in bytes. */
export const ruleSizes = { min: 512, max: 10 * GiB }

/** Whether two rules of one prefix are equal. */
export function sameRule(a: RuleFields, b: RuleFields): boolean {
  return compared.every(field => JSON.stringify(a[field]) === JSON.stringify(b[field]))
}
