import type { TokenUsage } from '../../policy/ai/chat.ts'
import { chatLimits } from '../../policy/ai/chat-limits.ts'
import type { Counter } from '../../policy/counters.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { type CounterRequests, type CounterState, countAll, countedTogether, standingsOfEach } from '../limits.ts'
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

/** One of the counters, or after them one of the calls. */
type CountedRow = CounterState | (AdmissionRow & { key: null })

const countAndAdmit = statement<CountedRow>(
  'ai.count-and-admit',
  `select * from ai_count_and_admit_all($13, $14, $15, $16,
     $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${chatLimits.minAnswerTokens}, ${chatLimits.slotSeconds}, $11, $12)`,
)

/** Calls, or settlements, of one statement: it holds the budgets of all of them until its end. */
const maxSize = 64

type NewCallAt = NewCall & { now: Date | null }

/** Parameters of `admit`. */
function valuesOf(calls: readonly NewCallAt[], lockMs: number): unknown[] {
  const of = <T>(field: (call: NewCall) => T): T[] => calls.map(field)
  return [
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
  ]
}

const admissionOf = ({ refusal, wait_seconds, granted }: AdmissionRow): CallAdmission =>
  refusal ? { refusal, waitSeconds: Math.max(1, Math.ceil(wait_seconds ?? 1)) } : { granted: Number(granted) }

const groupOf = ({ now, budgets }: NewCallAt): string => `${now?.toISOString()} ${budgets.platform}`

const admitBatched = batchedOverSubjects<NewCallAt, CallAdmission>(
  async (db, calls, lockMs) => (await admit(db, valuesOf(calls, lockMs))).map(admissionOf),
  { maxSize, subjectOf: call => call.userId, groupOf },
)

/**
 * Takes a slot, the pacing and the tokens of a call, exactly over all processes; calls that arrive together share a statement. `now` is
 * the database's clock, which only tests replace.
 */
export function admitCall(db: Db, call: NewCall, now: Date | null = null): Promise<CallAdmission> {
  return admitBatched(db, { ...call, now })
}

export interface CountedCall {
  standings: CounterState[]
  /** Null: it was only counted. */
  admission: CallAdmission | null
}

/** As the statement decides it. */
function isAnyRefused(together: readonly CounterRequests[], states: readonly CounterState[]): boolean {
  const allowed = new Map(together.map(({ counter, allow }) => [counter.key, allow]))
  return states.some(({ key, used, blocked_ms }) => blocked_ms > 0 || used > allowed.get(key)!)
}

const countAndAdmitBatched = batchedOverSubjects<{ call: NewCallAt; counters: readonly Counter[] }, CountedCall>(
  async (db, requests, lockMs) => {
    const calls = requests.map(({ call }) => call)
    const counters = requests.map(request => request.counters)
    const together = countedTogether(counters)
    if (lockMs === 0) {
      // A budget that something has locked is waited for without a lock on counters, which other requests need.
      const states = await countAll(db, together, lockMs)
      const admissions = isAnyRefused(together, states)
        ? []
        : (await admit(db, valuesOf(calls, lockMs))).map(admissionOf)
      return standingsOfEach(counters, states).map((standings, n) => ({ standings, admission: admissions[n] ?? null }))
    }
    const rows = await countAndAdmit(db, [
      ...valuesOf(calls, lockMs),
      together.map(({ counter }) => counter.key),
      together.map(({ counter }) => counter.perSeconds),
      together.map(counting => counting.requests),
      together.map(({ allow }) => allow),
    ])
    const admissions = rows.slice(together.length) as AdmissionRow[]
    return standingsOfEach(counters, rows.slice(0, together.length) as CounterState[]).map((standings, n) => ({
      standings,
      admission: admissions[n] ? admissionOf(admissions[n]) : null,
    }))
  },
  {
    maxSize,
    subjectOf: ({ call }) => call.userId,
    groupOf: ({ call }) => groupOf(call),
  },
)

/**
 * Counts the request of a call, as `countRequest` does, and admits the call by the same statement, as `admitCall` does. Where a limit
 * refuses any of the requests that share the statement, it only counts: `admitCall` is left to do.
 */
export function countAndAdmitCall(
  db: Db,
  call: NewCall,
  counters: readonly Counter[],
  now: Date | null = null,
): Promise<CountedCall> {
  return countAndAdmitBatched(db, { call: { ...call, now }, counters })
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
