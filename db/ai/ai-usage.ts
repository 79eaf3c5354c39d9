import { usageDays } from '../../policy/ai/chat-limits.ts'
import { batched } from '../batched.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { statement } from '../statement.ts'

/** What an account used by one key on one day. */
export interface UsageRow {
  user_id: string
  email: string
  /** Null: by sessions. */
  key_id: string | null
  /** UTC, as YYYY-MM-DD. */
  day: string
  requests: number
  prompt_tokens: number
  completion_tokens: number
  /** By code. */
  refusals: Record<string, number>
}

const addRefusals = statement<never>(
  'ai.refusals',
  `insert into ai_days as d (user_id, key_id, day, refusals)
   values ($1, $2, (now() at time zone 'UTC')::date, jsonb_build_object($3::text, $4::int))
   on conflict (user_id, key_id, day) do update
     set refusals = jsonb_set(d.refusals, array[$3::text], to_jsonb(coalesce((d.refusals->>$3)::int, 0) + $4::int))`,
)

const batchedRefusals = batched<readonly [user: string, key: string, code: string], void>(async (db, _, refusals) => {
  const [user, key, code] = refusals[0]!
  await addRefusals(db, [user, key, code, refusals.length])
  return refusals.map(() => undefined)
})

/** Counts a refusal of the AI gateway. Those of one account and code share a statement, so that refusing stays cheap. */
export function recordRefusal(db: Db, userId: string, keyId: string | null, code: string): Promise<void> {
  return batchedRefusals(db, `${userId} ${keyId} ${code}`, [userId, keyId ?? '', code])
}

/** Usage of the last `days` days, today included, newest first; of one account, or of all of them. */
export async function listUsage(db: Db, { userId, days }: { userId?: string; days: number }): Promise<UsageRow[]> {
  const { rows } = await db.raw(
    `select user_id, email, nullif(key_id, '') as key_id, day::text, requests::float8, prompt_tokens::float8,
            completion_tokens::float8, refusals
       from ai_days join users on users.id = user_id
      where day > (now() at time zone 'UTC')::date - :days::int and (:userId::text is null or user_id = :userId)
      order by day desc, user_id, key_id`,
    { userId: userId ?? null, days },
  )
  return rows
}

/** Tokens used today, by the database's clock. */
export async function usedToday(db: Db, subjects: readonly string[]): Promise<Map<string, number>> {
  const { rows } = await db.raw(
    `select subject, tokens::float8 from ai_budgets where subject = any(:subjects) and day = (now() at time zone 'UTC')::date`,
    { subjects: [...subjects] },
  )
  return new Map(rows.map((row: { subject: string; tokens: number }) => [row.subject, row.tokens]))
}

/** A call that is being answered, or whose process has died. */
export interface CallInFlight {
  id: string
  user_id: string
  /** Null: the account is deleted. */
  email: string | null
  /** Null: by a session. */
  key_id: string | null
  /** Reserved. */
  tokens: number
  started_at: Date
  /** Its slot is free from then on, whatever became of the call. */
  ends_at: Date
}

/** Oldest first. */
export async function listCalls(db: Db, limit: number): Promise<CallInFlight[]> {
  const { rows } = await db.raw(
    `select c.id, c.user_id, u.email, c.key_id, c.tokens::float8, c.started_at, c.ends_at
       from ai_calls c left join users u on u.id = c.user_id
      where c.ends_at > now() order by c.started_at limit ?`,
    [limit],
  )
  return rows
}

export function sweepUsage(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'ai_days', when: `old.day < (now() at time zone 'UTC')::date - ${usageDays}` })
}
