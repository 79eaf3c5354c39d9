import type { TokenUsage } from '../../policy/ai/chat.ts'
import { chatLimits } from '../../policy/ai/chat-limits.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { statement } from '../statement.ts'

/** A call that requests a slot, and its tokens. */
export interface NewCall {
  id: string
  userId: string
  /** Null: by a session. */
  keyId: string | null
  /** What is reserved: the messages, and the answer at its longest. */
  tokens: { prompt: number; answer: number }
  /** Calls of the account at a time, and seconds between two. */
  slots: number
  pacingSeconds: number
  /** Tokens per UTC day; null = no limit of its own. */
  budgets: { account: number; key: number | null; platform: number | null }
}

export type CallRefusal =
  | 'CONCURRENT_LIMIT_REACHED'
  | 'RATE_LIMIT_EXCEEDED'
  | 'DAILY_SPEND_LIMIT_REACHED'
  | 'DAILY_LIMIT_REACHED'
  | 'DAILY_CAPACITY_REACHED'
  | 'SERVER_OVERLOADED'

/** A call holds a slot, and its answer has up to `granted` tokens; or a refusal, which changed nothing. */
export type CallAdmission = { granted: number } | { refusal: CallRefusal; waitSeconds: number }

interface AdmissionRow {
  refusal: CallRefusal | null
  wait_seconds: number | null
  granted: string | null
}

const admit = statement<AdmissionRow>(
  'ai.admit',
  `select * from ai_admit($1, $2, $3, $4, $5, ${chatLimits.minAnswerTokens}, $6, $7, ${chatLimits.slotSeconds}, $8, $9, $10, $11)`,
)

/**
 * Takes a slot, the pacing and the tokens of a call in one statement, over all processes. `now` is the database's clock, which only
 * tests replace.
 */
export async function admitCall(db: Db, call: NewCall, now: Date | null = null): Promise<CallAdmission> {
  const { id, userId, keyId, tokens, slots, pacingSeconds, budgets } = call
  const { account, key, platform } = budgets
  const values = [id, userId, keyId, tokens.prompt, tokens.answer, slots, pacingSeconds, account, key, platform, now]
  const { refusal, wait_seconds, granted } = (await admit(db, values))[0]!
  return refusal ? { refusal, waitSeconds: Math.max(1, Math.ceil(wait_seconds ?? 1)) } : { granted: Number(granted) }
}

const settle = statement<{ settled: boolean }>('ai.settle', 'select ai_settle($1, $2, $3, $4) as settled')

/**
 * Frees the slot of a call and charges what was generated, once. Without `usage` nothing was: the call costs neither tokens nor pacing.
 * False: it was settled before, or its slot ended long ago.
 */
export async function settleCall(
  db: Db,
  id: string,
  usage: TokenUsage | undefined,
  now: Date | null = null,
): Promise<boolean> {
  return (await settle(db, [id, usage?.prompt ?? 0, usage?.completion ?? 0, now]))[0]!.settled
}

/** Deletes the calls of processes that died. They held no slot any more; a process that was only suspended may still settle for an hour. */
export function sweepCalls(db: Db): Promise<number> {
  return deleteExpired(db, { table: 'ai_calls', when: `old.ends_at < now() - interval '1 hour'` })
}

/** Deletes budgets of days that are over. The next call of the subject makes a new row. */
export function sweepBudgets(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'ai_budgets',
    when: `old.day < (now() at time zone 'UTC')::date - 1 and old.next_at < now()`,
  })
}
