import { z } from 'zod'
import { listUsage, type UsageRow, usedToday } from '../../../db/ai/ai-usage.ts'
import { covers } from '../../../policy/accounts/scopes.ts'
import { usageDays } from '../../../policy/ai/chat-limits.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { pageLimit } from '../../pipeline/fields.ts'
import { keyOf } from './chat-calls.ts'
import { gateway } from './gateway.ts'

const budget = z.object({ used: z.int(), limit: z.int().nullable() })

const dayShape = z.object({
  date: z.string().describe('UTC'),
  key_id: z.string().nullable().describe('null: by sessions'),
  requests: z.int(),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  refusals: z.record(z.string(), z.int()).describe('by code'),
})

/** Contract 13.10, our addition: what the account and the key have used. A key without account:read sees only its own days. */
export const getAiUsage = endpoint({
  ...gateway,
  name: 'ai.usage',
  method: 'GET',
  path: '/v2/ai/usage',
  summary: 'Show the tokens used by day',
  query: z.object({ days: pageLimit(30, usageDays) }),
  response: z.object({
    object: z.literal('usage'),
    today: z.object({ account: budget, key: budget.nullable(), resets_at: z.string() }),
    days: z.array(dayShape),
  }),
  async handle({ caller, query: { days } }, { db }) {
    const { user, plan } = caller
    const keyId = keyOf(caller)
    const subjects = [`user/${user.id}`, `key/${keyId}`]
    const [used, rows] = await Promise.all([usedToday(db, subjects), listUsage(db, { userId: user.id, days })])
    const [account = 0, key = 0] = subjects.map(subject => used.get(subject))
    const seesAll = covers(caller.scopes, 'account:read')
    return {
      object: 'usage' as const,
      today: {
        account: { used: account, limit: plan.aiTokensPerDay },
        key: user.ai_tokens_per_day === null ? null : { used: key, limit: user.ai_tokens_per_day },
        resets_at: nextMidnight(new Date()).toISOString(),
      },
      days: rows.filter(row => seesAll || row.key_id === keyId).map(shown),
    }
  },
})

const shown = ({
  day,
  key_id,
  requests,
  prompt_tokens,
  completion_tokens,
  refusals,
}: UsageRow): z.input<typeof dayShape> => ({
  date: day,
  key_id,
  requests,
  prompt_tokens,
  completion_tokens,
  refusals,
})

const nextMidnight = (now: Date): Date =>
  new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1))
