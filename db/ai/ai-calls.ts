import type { TokenUsage } from '../../policy/ai/chat.ts'
import { chatLimits } from '../../policy/ai/chat-limits.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { batchedOverSubjects } from '../shared-batches.ts'
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
  `select * from ai_admit_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${chatLimits.minAnswerTokens}, ${chatLimits.slotSeconds}, $11, $12)`,
)

/** Calls, or settlements, of one statement: it holds the budgets of all of them until its end. */
const maxSize = 64

const admitBatched = batchedOverSubjects<NewCall & { now: Date | null }, CallAdmission>(
  async (db, calls, lockMs) => {
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
      calls[0]!.now,
      lockMs,
    ])
    return rows.map(({ refusal, wait_seconds, granted }) =>
      refusal ? { refusal, waitSeconds: Math.max(1, Math.ceil(wait_seconds ?? 1)) } : { granted: Number(granted) },
    )
  },
  {
    maxSize,
    subjectOf: call => call.userId,
    groupOf: ({ now, budgets }) => `${now?.toISOString()} ${budgets.platform}`,
  },
)

/**
 * Takes a slot, the pacing and the tokens of a call, exactly over all processes; calls that arrive together share a statement. `now` is
 * the database's clock, which only tests replace.
 */
export function admitCall(db: Db, call: NewCall, now: Date | null = null): Promise<CallAdmission> {
  return admitBatched(db, { ...call, now })
}

const settle = statement<{ id: string }>('ai.settle', 'select id from ai_settle_all($1, $2, $3, $4, $5) as id')

interface Settlement {
  id: string
  userId: string
  usage: TokenUsage | undefined
  now: Date | null
}

const settleBatched = batchedOverSubjects<Settlement, boolean>(
  async (db, settlements, lockMs) => {
    const first = new Map([...settlements].reverse().map(settlement => [settlement.id, settlement]))
    const each = [...first.values()]
    const rows = await settle(db, [
      each.map(({ id }) => id),
      each.map(({ usage }) => usage?.prompt ?? 0),
      each.map(({ usage }) => usage?.completion ?? 0),
      settlements[0]!.now,
      lockMs,
    ])
    const ended = new Set(rows.map(({ id }) => id))
    return settlements.map(settlement => first.get(settlement.id) === settlement && ended.has(settlement.id))
  },
  { maxSize, subjectOf: ({ userId }) => userId, groupOf: ({ now }) => `${now?.toISOString()}` },
)

/**
 * Frees the slot of a call and charges what was generated, once. Without `usage` nothing was: the call costs neither tokens nor pacing.
 * False: it was settled before, or its slot ended long ago.
 */
export function settleCall(
  db: Db,
  { id, userId }: Pick<NewCall, 'id' | 'userId'>,
  usage: TokenUsage | undefined,
  now: Date | null = null,
): Promise<boolean> {
  return settleBatched(db, { id, userId, usage, now })
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
