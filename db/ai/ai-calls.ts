import type { TokenUsage } from '../../policy/ai/chat.ts'
import { chatLimits } from '../../policy/ai/chat-limits.ts'
import { batched } from '../batched.ts'
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
  `select * from ai_admit_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${chatLimits.minAnswerTokens}, ${chatLimits.slotSeconds}, $11)`,
)

/** Calls and settlements of one statement: it holds the budgets of all of them until its end. */
const batches = { maxSize: 64, maxConcurrent: 2 }

const admitBatched = batched<NewCall, CallAdmission>(async (db, key, calls) => {
  const of = <T>(field: (call: NewCall) => T): T[] => calls.map(field)
  const rows = await admit(db, [
    of(call => call.id),
    of(call => call.userId),
    of(call => call.keyId),
    of(call => call.tokens.prompt),
    of(call => call.tokens.answer),
    of(call => call.slots),
    of(call => call.pacingSeconds),
    of(call => call.budgets.account),
    of(call => call.budgets.key),
    calls[0]!.budgets.platform,
    momentOf(key),
  ])
  return rows.map(({ refusal, wait_seconds, granted }) =>
    refusal ? { refusal, waitSeconds: Math.max(1, Math.ceil(wait_seconds ?? 1)) } : { granted: Number(granted) },
  )
}, batches)

/**
 * Takes a slot, the pacing and the tokens of a call, exactly over all processes; calls that arrive together share a statement. `now` is
 * the database's clock, which only tests replace.
 */
export function admitCall(db: Db, call: NewCall, now: Date | null = null): Promise<CallAdmission> {
  return admitBatched(db, keyOf(now, call.budgets.platform), call)
}

const settle = statement<{ id: string }>('ai.settle', 'select id from ai_settle_all($1, $2, $3, $4) as id')

interface Settlement {
  id: string
  usage: TokenUsage | undefined
}

const settleBatched = batched<Settlement, boolean>(async (db, key, settlements) => {
  const first = new Map([...settlements].reverse().map(settlement => [settlement.id, settlement]))
  const each = [...first.values()]
  const rows = await settle(db, [
    each.map(({ id }) => id),
    each.map(({ usage }) => usage?.prompt ?? 0),
    each.map(({ usage }) => usage?.completion ?? 0),
    momentOf(key),
  ])
  const settled = new Set(rows.map(({ id }) => id))
  return settlements.map(settlement => first.get(settlement.id) === settlement && settled.has(settlement.id))
}, batches)

/**
 * Frees the slot of a call and charges what was generated, once. Without `usage` nothing was: the call costs neither tokens nor pacing.
 * False: it was settled before, or its slot ended long ago.
 */
export function settleCall(
  db: Db,
  id: string,
  usage: TokenUsage | undefined,
  now: Date | null = null,
): Promise<boolean> {
  return settleBatched(db, keyOf(now), { id, usage })
}

/** Only calls with the same time and the same platform share a statement. */
const keyOf = (now: Date | null, platformTokens: number | null = null): string =>
  `${now?.toISOString() ?? ''} ${platformTokens ?? ''}`

function momentOf(key: string): string | null {
  return key.split(' ')[0] || null
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
