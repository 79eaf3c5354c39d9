import { GiB } from '../../lib/bytes.ts'

/** What an account asks of its uploads below a prefix (contract 7.28). Null = the rule leaves it open. */
export interface RuleFields {
  /** Folders, ending in "/". */
  prefix: string
  private: boolean | null
  /** A duration, as uploads take it. */
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
  /** From when on it deletes; null without `delete_after_days`. */
  active_from: Date | null
}

/** The rule of a name (what follows the account in an id, folders and all): the one with the longest prefix that it begins with. */
export function ruleFor<R extends { prefix: string }>(rules: readonly R[], key: string): R | undefined {
  const matching = rules.filter(rule => key.startsWith(rule.prefix))
  return matching.sort((a, b) => b.prefix.length - a.prefix.length)[0]
}

const countByTier: Record<string, number> = { hobby: 5, standard: 5, pro: 10, enterprise: 20 }

/** How many rules an account of this tier may save (contract 11.2). */
export const maxRules = (tier: string): number => countByTier[tier] ?? 0

/** How many rules any account may save. */
export const maxRulesOfAnyTier = Math.max(...Object.values(countByTier))

/** A rule that deletes does so only this long after it was saved: time to see a mistake. */
export const ruleRestSeconds = 24 * 3600

const compared = ['private', 'expire', 'max_size', 'extensions', 'cache_control', 'delete_after_days'] as const

/** What `delete_after_days` takes; below `usualDeletionDays` only some plans have it. */
export const deletionDays = { min: 1, max: 3650 }
export const usualDeletionDays = 7

/** What `max_size` takes, in bytes. */
export const ruleSizes = { min: 512, max: 10 * GiB }

/** Whether two rules of one prefix ask for the same. */
export function sameRule(a: RuleFields, b: RuleFields): boolean {
  return compared.every(field => JSON.stringify(a[field]) === JSON.stringify(b[field]))
}
