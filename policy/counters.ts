import type { Plan } from './accounts/plans.ts'
import type { ErrorCode } from './errors.ts'
import { type Limit, outsidePerMinute, tokenRequests } from './limits.ts'

/** One counter of one request: its key, its limit, and the code of a refusal. */
export interface Counter {
  key: string
  allow: number
  perSeconds: number
  blockSeconds: number
  code: ErrorCode
}

export interface Counted {
  /** The caller and its plan; absent on public routes. */
  user?: { id: string; plan: Plan }
  appId?: string
  databaseId?: string
  /** The upload token that is the caller's credential. */
  uploadTokenId?: string
  /** Source address of every caller. */
  address?: string
  /** The visited link. */
  link?: string
  /** Source address of a caller outside the platform; absent for loopback, hosts and applications. */
  outsideAddress?: string
  scale: number
  budgetBlockSeconds: number
}

/**
 * Every counter of one request, sorted by key, so that requests always lock the same rows in one order.
 *
 * The daily cap of a plan, 1440 times its figure per 60 s, needs no counter of its own: windows of one counter never
 * overlap, so no day holds more than 1440 of them.
 */
export function countersOf(endpoint: string, rows: readonly Limit[], who: Counted): Counter[] {
  const counters = ownCounters(endpoint, rows, who)
  const scaled = (allow: number): number => scaledCount(allow, who.scale)
  const budget = { perSeconds: 60, blockSeconds: who.budgetBlockSeconds, code: 'RATE_LIMIT' } as const
  const planLimit = who.user?.plan.requestsPerMinute ?? 0
  if (who.user) counters.push({ key: `budget/${who.user.id}`, allow: scaled(planLimit), ...budget })
  // A larger plan has its own budget alone: everyone behind an address shares its counter, and one limit.
  if (who.outsideAddress && planLimit <= outsidePerMinute)
    counters.push({ key: `outside/${who.outsideAddress}`, allow: scaled(outsidePerMinute), ...budget })
  return counters.length > 1 ? counters.sort((a, b) => (a.key < b.key ? -1 : 1)) : counters
}

type Subject = Pick<Counted, 'appId' | 'databaseId' | 'uploadTokenId' | 'address' | 'link' | 'scale'> & {
  user?: { id: string }
}

/** The counters of an endpoint's own limits, without the budgets: for costs that are known only after the request was admitted. */
export function ownCounters(endpoint: string, rows: readonly Limit[], who: Subject): Counter[] {
  const counters: Counter[] = []
  for (const row of rows) {
    const subject = subjectOf(row.by, who)
    if (subject === undefined) continue
    counters.push({
      key: `${row.shared ?? endpoint}/${row.by}/${subject}/${row.perSeconds}`,
      allow: scaledCount(row.allow, who.scale),
      perSeconds: row.perSeconds,
      blockSeconds: row.thenBlockSeconds ?? 0,
      code: row.code ?? 'KEEP_CALM',
    })
  }
  if (who.uploadTokenId)
    counters.push({
      ...tokenRequests,
      key: `upload-token/${who.uploadTokenId}`,
      allow: scaledCount(tokenRequests.allow, who.scale),
      code: 'KEEP_CALM',
    })
  return counters
}

const scaledCount = (allow: number, scale: number): number => Math.max(1, Math.floor(allow * scale))

function subjectOf(by: Limit['by'], who: Subject): string | undefined {
  if (by === 'user') return who.user?.id
  if (by === 'app') return who.appId
  if (by === 'database') return who.databaseId
  if (by === 'address') return who.address
  if (by === 'link+address') return who.link && who.address && `${who.link}/${who.address}`
  const resourceId = by === 'user+app' ? who.appId : who.databaseId
  return who.user && resourceId && `${who.user.id}/${resourceId}`
}
