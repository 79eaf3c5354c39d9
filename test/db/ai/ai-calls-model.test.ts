import test from 'ava'
import fc from 'fast-check'
import {
  admitCall,
  type CallAdmission,
  type CallRefusal,
  countAndAdmitCall,
  type NewCall,
  settleCall,
} from '../../../db/ai/ai-calls.ts'
import type { Db } from '../../../db/database.ts'
import { eachConcurrently } from '../../../lib/async/concurrently.ts'
import { newId } from '../../../policy/ids.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const orders = 10_000
const slots = 2
/** Seconds. Without a pause, calls that arrive together may both get a slot. */
const pacings = [0, 3] as const
const budget = { account: 900, key: 500 }

/** A call that the model believes in flight, until its end or the end of its slot. */
interface Flight {
  id: string
  byKey: boolean
  tokens: number
  nextAt: number
  endsAt: number
  /** Its process has died: nothing settles it. */
  dead?: true
}

const acts = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('admit' as const),
        byKey: fc.boolean(),
        /** As many arrive together, and share a statement. */
        times: fc.constantFrom(1, 1, 2, 3),
        prompt: fc.integer({ min: 0, max: 120 }),
        answer: fc.integer({ min: 1, max: 400 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constantFrom('settle' as const, 'settle twice' as const, 'crash' as const),
        which: fc.nat(3),
        /** Of what was reserved. */
        used: fc.constantFrom(0, 0.3, 1),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('wait' as const),
        seconds: fc.constantFrom(0.5, 1, 3, 40, 94.9, 95, 30_000),
      }),
    },
  ),
  { minLength: 2, maxLength: 9 },
)

type Order = typeof acts extends fc.Arbitrary<infer A> ? A : never

const noon = Date.parse('2030-05-05T12:00:00Z')
const dayOf = (at: number) => Math.floor(at / 86_400_000)

/** Admits a call by itself, or with its request, whose limit refuses nothing here. */
async function admitted(db: Db, call: NewCall, now: Date, isCounted: boolean): Promise<CallAdmission> {
  if (!isCounted) return admitCall(db, call, now)
  const counter = {
    key: `budget/${call.userId}`,
    allow: 1e6,
    perSeconds: 60,
    blockSeconds: 0,
    code: 'RATE_LIMIT',
  } as const
  return (await countAndAdmitCall(db, call, [counter], now)).admission!
}

/** What an account may do, by the words of the contract alone. */
class Model {
  at = noon
  nextAt = Number.NEGATIVE_INFINITY
  #spent = new Map<string, number>()
  /** Of it, what was charged after the end of its slot: its reservation had ended, so others may have got the same tokens. */
  #late = new Map<string, number>()
  /** Calls that no settlement has ended. */
  flights: Flight[] = []

  get live(): Flight[] {
    return this.flights.filter(({ endsAt }) => endsAt > this.at)
  }

  spent(subject: 'account' | 'key'): number {
    return this.#spent.get(`${subject} ${dayOf(this.at)}`) ?? 0
  }

  charge(flight: Flight, tokens: number): void {
    for (const subject of flight.byKey ? (['account', 'key'] as const) : (['account'] as const)) {
      const key = `${subject} ${dayOf(this.at)}`
      this.#spent.set(key, this.spent(subject) + tokens)
      if (flight.endsAt <= this.at) this.#late.set(key, (this.#late.get(key) ?? 0) + tokens)
    }
  }

  /** Whether what was charged within its slot is within the budget. */
  isWithin(subject: 'account' | 'key'): boolean {
    return this.spent(subject) - (this.#late.get(`${subject} ${dayOf(this.at)}`) ?? 0) <= budget[subject]
  }

  admits(byKey: boolean, prompt: number, answer: number): CallRefusal | number {
    if (this.live.length >= slots) return 'CONCURRENT_LIMIT_REACHED'
    if (this.nextAt > this.at) return 'RATE_LIMIT_EXCEEDED'
    const budgets = [
      ...(byKey ? [['key', 'DAILY_SPEND_LIMIT_REACHED', this.live.filter(flight => flight.byKey)] as const] : []),
      ['account', 'DAILY_LIMIT_REACHED', this.live] as const,
    ]
    let granted = answer
    for (const [subject, code, flights] of budgets) {
      const unused = budget[subject] - this.spent(subject) - prompt
      const free = unused - flights.reduce((sum, { tokens }) => sum + tokens, 0)
      if (unused < Math.min(16, answer)) return code
      if (free < Math.min(16, answer)) return 'CONCURRENT_LIMIT_REACHED'
      granted = Math.min(granted, free)
    }
    return granted
  }
}

test(`a model of admitting, settling and crashing agrees with Postgres in ${orders} random orders`, async t => {
  const { db } = await database
  let runs = 0
  const counts = { granted: 0, refused: 0, settled: 0, late: 0, crashed: 0 }

  async function run(order: Order): Promise<void> {
    const account = await rows(db).user()
    const keyId = `key-of-${account.id}`
    const pacing = pacings[order.length % 2]!
    const isCounted = runs++ % 2 === 0
    const model = new Model()
    for (const act of order) {
      const now = new Date(model.at)
      const where = () => JSON.stringify(order)
      if (act.do === 'wait') model.at += act.seconds * 1000
      else if (act.do === 'admit') {
        const budgets = { account: budget.account, key: act.byKey ? budget.key : null, platform: null }
        const call = { userId: account.id, slots, pacingSeconds: pacing, tokens: act, budgets }
        const ids = Array.from({ length: act.times }, newId)
        const answers = Promise.all(
          ids.map(id => admitted(db, { ...call, id, keyId: act.byKey ? keyId : null }, now, isCounted)),
        )
        for (const [n, answer] of (await answers).entries()) {
          const expected = model.admits(act.byKey, act.prompt, act.answer)
          t.is('granted' in answer ? answer.granted : answer.refusal, expected, where())
          counts[typeof expected === 'number' ? 'granted' : 'refused']++
          if (typeof expected !== 'number') continue
          model.nextAt = model.at + pacing * 1000
          const { at, nextAt } = model
          const tokens = act.prompt + expected
          model.flights.push({ id: ids[n]!, byKey: act.byKey, tokens, nextAt, endsAt: at + 95_000 })
        }
      } else {
        // Also those whose slot has ended: their process stood still, or had no Postgres.
        const running = model.flights.filter(({ dead }) => !dead)
        const flight = running[act.which % Math.max(1, running.length)]
        if (!flight) continue
        if (act.do === 'crash') {
          flight.dead = true
          counts.crashed++
          continue
        }
        if (flight.endsAt <= model.at) counts.late++
        model.flights.splice(model.flights.indexOf(flight), 1)
        const used = Math.floor(flight.tokens * act.used)
        const usage = used > 0 ? { prompt: 0, completion: used } : undefined
        t.true(await settleCall(db, { id: flight.id, userId: account.id }, usage, now), where())
        if (act.do === 'settle twice')
          t.false(await settleCall(db, { id: flight.id, userId: account.id }, usage, now), where())
        counts.settled++
        model.charge(flight, used)
        if (!usage && model.nextAt === flight.nextAt) model.nextAt = Math.min(model.nextAt, model.at)
      }
      t.true(model.isWithin('account') && model.isWithin('key'), where())
    }
  }

  await eachConcurrently(fc.sample(acts, orders), 8, run)
  // The orders reach what they are about.
  for (const [what, count] of Object.entries(counts))
    t.true(count > orders / (what === 'late' ? 100 : 8), `${what}: ${count}`)
})
