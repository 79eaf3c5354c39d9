import type { KeyRow } from '../../db/accounts/accounts.ts'
import type { UsageRow } from '../../db/ai/ai-usage.ts'
import { columns } from '../terminal/terminal.ts'

type Sums = Pick<UsageRow, 'requests' | 'prompt_tokens' | 'completion_tokens' | 'refusals'>

/** Usage by day and account, or, with the keys of the only account, by day and key; the total in the last line. */
export function usageTable(rows: readonly UsageRow[], keys: readonly KeyRow[] | null): string {
  const groups = new Map<string, UsageRow[]>()
  for (const row of rows) {
    const group = `${row.day} ${keys ? row.key_id : row.user_id}`
    groups.set(group, [...(groups.get(group) ?? []), row])
  }
  const names = new Map(keys?.map(({ id, name }) => [id, name]))
  const byWhom = ({ email, key_id }: UsageRow): string => {
    if (!keys) return email
    if (key_id === null) return 'sessions'
    return names.has(key_id) ? `${key_id} ${names.get(key_id)}` : key_id
  }
  return columns(
    [
      ['DAY', keys ? 'KEY' : 'ACCOUNT', 'REQUESTS', 'PROMPT', 'COMPLETION', 'TOKENS', 'REFUSALS'],
      ...[...groups.values()].map(group => [group[0]!.day, byWhom(group[0]!), ...cells(sum(group), keys !== null)]),
      ['TOTAL', '', ...cells(sum(rows), false)],
    ],
    '',
  )
}

function sum(rows: readonly UsageRow[]): Sums {
  const total: Sums = { requests: 0, prompt_tokens: 0, completion_tokens: 0, refusals: {} }
  for (const row of rows) {
    total.requests += row.requests
    total.prompt_tokens += row.prompt_tokens
    total.completion_tokens += row.completion_tokens
    for (const [code, count] of Object.entries(row.refusals)) total.refusals[code] = (total.refusals[code] ?? 0) + count
  }
  return total
}

/** Codes are many: without them, the number of all refusals. */
function cells({ requests, prompt_tokens, completion_tokens, refusals }: Sums, withCodes: boolean): string[] {
  const numbers = [requests, prompt_tokens, completion_tokens, prompt_tokens + completion_tokens]
  const codes = Object.entries(refusals).sort(([, a], [, b]) => b - a)
  const all = codes.reduce((sum, [, count]) => sum + count, 0)
  const named = codes.map(([code, count]) => `${count} ${code}`).join(', ')
  return [...numbers.map(String), withCodes && named ? named : String(all)]
}

/** What scripts read of one day, account and key: exactly these keys, which docs/json-output.md lists. */
export function usageView({ day, user_id, email, key_id, ...counts }: UsageRow) {
  const { requests, prompt_tokens, completion_tokens, refusals } = counts
  return { day, user_id, email, key_id, requests, prompt_tokens, completion_tokens, refusals }
}
