import test from 'ava'
import { admitCall, type NewCall, settleCall, sweepBudgets, sweepCalls } from '../../../db/ai/ai-calls.ts'
import { openDatabase } from '../../../db/database.ts'
import { newId } from '../../../policy/ids.ts'
import { statementsOf } from '../../kit/rows/plans-of.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const noon = new Date('2030-05-05T12:00:00Z')
const after = (seconds: number, from = noon) => new Date(from.getTime() + seconds * 1000)

/** A call of a new account: one at a time, 4 s apart, 1,000 tokens a day. */
async function newCall(changes: Partial<NewCall> = {}): Promise<NewCall> {
  const user = await rows((await database).db).user()
  return {
    id: newId(),
    userId: user.id,
    keyId: `key-of-${user.id}`,
    tokens: { prompt: 10, answer: 90 },
    slots: 1,
    pacingSeconds: 4,
    budgets: { account: 1000, key: null, platform: null },
    ...changes,
  }
}

const again = (call: NewCall, changes: Partial<NewCall> = {}): NewCall => ({ ...call, ...changes, id: newId() })

test('an account has one slot: free when its call is settled, or 95 s after it began', async t => {
  const { db } = await database
  const first = await newCall({ pacingSeconds: 0 })
  t.deepEqual(await admitCall(db, first, noon), { granted: 90 })
  const busy = { refusal: 'CONCURRENT_LIMIT_REACHED', waitSeconds: 1 }
  t.deepEqual(await admitCall(db, again(first), after(1)), busy)
  t.true(await settleCall(db, first, { prompt: 10, completion: 5 }, after(2)))
  const second = again(first)
  t.deepEqual(await admitCall(db, second, after(2)), { granted: 90 })
  t.deepEqual(await admitCall(db, again(first), after(2 + 94.9)), busy, 'its process died')
  t.deepEqual(await admitCall(db, again(first), after(2 + 95)), { granted: 90 })
})

test('another plan has two slots, and no third', async t => {
  const { db } = await database
  const call = await newCall({ pacingSeconds: 0, slots: 2 })
  for (const expected of [{ granted: 90 }, { granted: 90 }])
    t.deepEqual(await admitCall(db, again(call), noon), expected)
  t.like(await admitCall(db, again(call), noon), { refusal: 'CONCURRENT_LIMIT_REACHED' })
})

test('a refusal for the pacing says how long to wait, and does not lengthen it', async t => {
  const { db } = await database
  const call = await newCall()
  await admitCall(db, call, noon)
  await settleCall(db, call, { prompt: 10, completion: 5 }, after(1))
  t.deepEqual(await admitCall(db, again(call), after(1.5)), { refusal: 'RATE_LIMIT_EXCEEDED', waitSeconds: 3 })
  t.deepEqual(await admitCall(db, again(call), after(3.9)), { refusal: 'RATE_LIMIT_EXCEEDED', waitSeconds: 1 })
  t.deepEqual(await admitCall(db, again(call), after(4)), { granted: 90 })
})

test('a call for which nothing was generated costs neither tokens nor pacing nor a line of usage', async t => {
  const { db } = await database
  const call = await newCall()
  await admitCall(db, call, noon)
  t.true(await settleCall(db, call, undefined, after(1)))
  t.deepEqual(await admitCall(db, again(call, { tokens: { prompt: 900, answer: 100 } }), after(1)), { granted: 100 })
  t.deepEqual(await db('ai_days').where({ user_id: call.userId }), [])
})

test('a call is settled once, however often that is tried', async t => {
  const { db } = await database
  const call = await newCall()
  await admitCall(db, call, noon)
  const settled = await Promise.all(
    Array.from({ length: 8 }, () => settleCall(db, call, { prompt: 10, completion: 30 }, after(1))),
  )
  t.is(settled.filter(Boolean).length, 1)
  t.like(
    await db('ai_budgets')
      .where({ subject: `user/${call.userId}` })
      .first(),
    { tokens: '40' },
  )
  t.like(await db('ai_days').where({ user_id: call.userId }).first(), {
    requests: '1',
    prompt_tokens: '10',
    completion_tokens: '30',
  })
})

test('near the end of the day an answer is cut to what is left, and below 16 tokens refused until 00:00 UTC', async t => {
  const { db } = await database
  const call = await newCall({ pacingSeconds: 0 })
  const use = async (completion: number) => {
    const used = again(call, { tokens: { prompt: 0, answer: completion } })
    await admitCall(db, used, noon)
    await settleCall(db, used, { prompt: 0, completion }, noon)
  }
  await use(930)
  const cut = again(call)
  t.deepEqual(await admitCall(db, cut, noon), { granted: 60 })
  await settleCall(db, cut, undefined, noon)
  await use(44)
  const last = again(call)
  t.deepEqual(await admitCall(db, last, noon), { granted: 16 })
  await settleCall(db, last, undefined, noon)
  await use(1)
  const spent = { refusal: 'DAILY_LIMIT_REACHED', waitSeconds: 12 * 3600 }
  t.deepEqual(await admitCall(db, again(call), noon), spent)
  t.deepEqual(await admitCall(db, again(call, { tokens: { prompt: 10, answer: 5 } }), noon), { granted: 5 })
})

test('a day ends at midnight UTC, and not a moment earlier', async t => {
  const { db } = await database
  const call = await newCall({ pacingSeconds: 0, tokens: { prompt: 0, answer: 1000 } })
  await admitCall(db, call, noon)
  await settleCall(db, call, { prompt: 0, completion: 1000 }, noon)
  const lastMoment = new Date('2030-05-05T23:59:59.999Z')
  t.deepEqual(await admitCall(db, again(call), lastMoment), { refusal: 'DAILY_LIMIT_REACHED', waitSeconds: 1 })
  const next = again(call)
  t.deepEqual(await admitCall(db, next, new Date('2030-05-06T00:00:00Z')), { granted: 1000 })
  await settleCall(db, next, { prompt: 0, completion: 7 }, new Date('2030-05-06T00:00:01Z'))
  t.deepEqual(
    (await db('ai_days').where({ user_id: call.userId }).orderBy('day')).map(row => row.completion_tokens),
    ['1000', '7'],
  )
})

test('a call that spans midnight stays reserved, and is charged to the day on which it ends', async t => {
  const { db } = await database
  const call = await newCall({ pacingSeconds: 0, slots: 2, tokens: { prompt: 0, answer: 600 } })
  await admitCall(db, call, new Date('2030-05-05T23:59:30Z'))
  t.deepEqual(await admitCall(db, again(call), new Date('2030-05-06T00:00:10Z')), { granted: 400 })
  await settleCall(db, call, { prompt: 0, completion: 600 }, new Date('2030-05-06T00:00:20Z'))
  t.like(
    await db('ai_budgets')
      .where({ subject: `user/${call.userId}` })
      .first(),
    { tokens: '600' },
  )
})

test.serial(
  'the first reason is returned: slot, pacing, the day of the key, of the account, of the platform',
  async t => {
    const { db } = await database
    const call = await newCall({ budgets: { account: 50, key: 50, platform: 50 } })
    t.like(await admitCall(db, call, noon), { granted: 40 })
    const wants = (changes: Partial<NewCall>) => admitCall(db, again(call, changes), noon)
    t.like(await wants({}), { refusal: 'CONCURRENT_LIMIT_REACHED' })
    t.like(await wants({ slots: 2 }), { refusal: 'RATE_LIMIT_EXCEEDED' })
    await settleCall(db, call, { prompt: 10, completion: 40 }, noon)
    const at = after(10)
    const refused = async (budgets: NewCall['budgets']) => admitCall(db, again(call, { budgets }), at)
    const until = { waitSeconds: 12 * 3600 - 10 }
    t.deepEqual(await refused({ account: 50, key: 50, platform: 50 }), {
      refusal: 'DAILY_SPEND_LIMIT_REACHED',
      ...until,
    })
    t.deepEqual(await refused({ account: 50, key: 99, platform: 50 }), { refusal: 'DAILY_LIMIT_REACHED', ...until })
    t.deepEqual(await refused({ account: 99, key: 99, platform: 50 }), { refusal: 'DAILY_CAPACITY_REACHED', ...until })
    t.deepEqual(await refused({ account: 99, key: 99, platform: 99 }), { granted: 39 })
  },
)

test.serial('tokens that calls in flight reserve are not spent: another call waits for them', async t => {
  const { db } = await database
  const call = await newCall({ pacingSeconds: 0, slots: 3, tokens: { prompt: 0, answer: 995 } })
  await admitCall(db, call, noon)
  t.deepEqual(await admitCall(db, again(call), noon), { refusal: 'CONCURRENT_LIMIT_REACHED', waitSeconds: 1 })
  const other = await newCall({ budgets: { account: 9_000_000, key: null, platform: 5_000_000 } })
  await admitCall(db, { ...other, tokens: { prompt: 0, answer: 4_999_999 } }, noon)
  const third = await newCall({ budgets: { account: 9_000_000, key: null, platform: 5_000_000 } })
  t.deepEqual(await admitCall(db, third, noon), { refusal: 'SERVER_OVERLOADED', waitSeconds: 1 })
})

test('a refusal changes nothing', async t => {
  const { db } = await database
  const call = await newCall()
  await admitCall(db, call, noon)
  const stored = async () => [
    await db('ai_budgets').where({ subject: `user/${call.userId}` }),
    await db('ai_calls').where({ user_id: call.userId }),
  ]
  const before = await stored()
  t.like(await admitCall(db, again(call), after(1)), { refusal: 'CONCURRENT_LIMIT_REACHED' })
  t.deepEqual(await stored(), before)
})

test('concurrent calls over several connections never pass slots or budgets', async t => {
  const { db, url } = await database
  const others = [db, openDatabase({ url, pool: 6 }), openDatabase({ url, pool: 6 })]
  t.teardown(() => Promise.all(others.slice(1).map(other => other.destroy())))
  const call = await newCall({ pacingSeconds: 0, slots: 5, budgets: { account: 330, key: 330, platform: null } })
  const admitted = await Promise.all(
    Array.from({ length: 60 }, (_, n) => admitCall(others[n % others.length]!, again(call), noon)),
  )
  const granted = admitted.flatMap(answer => ('granted' in answer ? [answer.granted] : []))
  t.deepEqual(
    granted,
    [90, 90, 90, 20].sort((a, b) => granted.indexOf(a) - granted.indexOf(b)),
  )
  const single = await newCall({ pacingSeconds: 0 })
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => admitCall(others[n % others.length]!, again(single), noon)),
  )
  t.is(answers.filter(answer => 'granted' in answer).length, 1)
})

test('concurrent calls of as many accounts never pass the budget of the platform', async t => {
  const { db, url } = await database
  const others = [db, openDatabase({ url, pool: 6 }), openDatabase({ url, pool: 6 })]
  t.teardown(() => Promise.all(others.slice(1).map(other => other.destroy())))
  // A day of its own: other tests have calls in progress at noon.
  const day = new Date('2031-01-01T12:00:00Z')
  const calls = await Promise.all(
    Array.from({ length: 60 }, () => newCall({ budgets: { account: 1000, key: null, platform: 350 } })),
  )
  const admitted = await Promise.all(calls.map((call, n) => admitCall(others[n % others.length]!, call, day)))
  const granted = admitted.flatMap(answer => ('granted' in answer ? [answer.granted] : []))
  t.deepEqual(
    granted.sort((a, b) => a - b),
    [40, 90, 90, 90],
  )
  const refusals = new Set(admitted.flatMap(answer => ('refusal' in answer ? [answer.refusal] : [])))
  t.deepEqual([...refusals], ['SERVER_OVERLOADED'])
  await Promise.all(
    calls.map((call, n) =>
      'granted' in admitted[n]! ? settleCall(db, call, { prompt: 10, completion: admitted[n].granted }, day) : null,
    ),
  )
  const next = await newCall({ budgets: { account: 1000, key: null, platform: 350 } })
  t.like(await admitCall(db, next, day), { refusal: 'DAILY_CAPACITY_REACHED' })
})

test('a call that is settled after its slot has ended is charged, once', async t => {
  const { db } = await database
  const call = await newCall()
  await admitCall(db, call, noon)
  t.true(await settleCall(db, call, { prompt: 10, completion: 5 }, after(180)))
  t.false(await settleCall(db, call, { prompt: 10, completion: 5 }, after(181)))
  t.like(
    await db('ai_budgets')
      .where({ subject: `user/${call.userId}` })
      .first(),
    { tokens: '15' },
  )
})

test('calls of processes that died, and budgets of earlier days, are swept; others stay', async t => {
  const { db } = await database
  const old = await newCall()
  await admitCall(db, old, new Date(Date.now() - 3 * 86_400_000))
  const live = await newCall()
  await admitCall(db, live)
  t.true((await sweepCalls(db)) >= 1)
  t.true((await sweepBudgets(db)) >= 1)
  t.is(await db('ai_calls').where({ id: old.id }).first(), undefined)
  t.is(
    await db('ai_budgets')
      .where({ subject: `user/${old.userId}` })
      .first(),
    undefined,
  )
  t.truthy(await db('ai_calls').where({ id: live.id }).first())
  t.truthy(
    await db('ai_budgets')
      .where({ subject: `user/${live.userId}` })
      .first(),
  )
})

test.serial('concurrent calls that meet new budgets lock them in one order', async t => {
  const { url } = await database
  const other = openDatabase({ url, pool: 12 })
  t.teardown(() => other.destroy())
  for (let burst = 0; burst < 30; burst++) {
    const call = await newCall({ pacingSeconds: 0, slots: 20 })
    const first = again(call)
    await admitCall(other, first, noon)
    await settleCall(other, first, undefined, noon)
    const budgets = { account: 1000, key: 1000, platform: 10_000_000 }
    const admitted = await Promise.all(
      Array.from({ length: 12 }, () =>
        admitCall(other, again(call, { budgets, tokens: { prompt: 1, answer: 1 } }), noon),
      ),
    )
    t.true(admitted.every(answer => 'granted' in answer))
  }
})

test('calls of several accounts that arrive together share a statement to be admitted, and one to be settled', async t => {
  const { db } = await database
  const [ana, ben] = [
    await newCall({ pacingSeconds: 0 }),
    await newCall({ budgets: { account: 50, key: 30, platform: null } }),
  ]
  const calls = [ana, ben, again(ana), again(ben)]
  let admitted: unknown[] = []
  const usage = { prompt: 10, completion: 5 }
  let settled: boolean[] = []
  const sent = await statementsOf(async () => {
    admitted = await Promise.all(calls.map(call => admitCall(db, call, noon)))
    settled = await Promise.all([ana, ben, ana, calls[2]!].map(call => settleCall(db, call, usage, noon)))
  })
  // Other tests of this file send some at the same time.
  t.is(sent.filter(({ values }) => JSON.stringify(values).includes(ana.id)).length, 2)
  const busy = { refusal: 'CONCURRENT_LIMIT_REACHED', waitSeconds: 1 }
  t.deepEqual(admitted, [{ granted: 90 }, { granted: 20 }, busy, busy])
  t.deepEqual(settled, [true, true, false, false])
  const used = await db('ai_budgets').whereIn('subject', [
    `user/${ana.userId}`,
    `user/${ben.userId}`,
    `key/${ben.keyId}`,
  ])
  t.deepEqual(
    used.map(({ tokens }) => Number(tokens)),
    [15, 15, 15],
  )
})
