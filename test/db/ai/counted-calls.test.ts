import test from 'ava'
import { admitCall, type CountedCall, countAndAdmitCall, type NewCall, settleCall } from '../../../db/ai/ai-calls.ts'
import { openDatabase } from '../../../db/database.ts'
import { countRequest, countRequests, startBlock } from '../../../db/limits.ts'
import type { Counter } from '../../../policy/counters.ts'
import { newId } from '../../../policy/ids.ts'
import { newCall } from '../../kit/ai/new-call.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { statementsOf } from '../../kit/rows/plans-of.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

interface Request {
  call: NewCall
  counters: Counter[]
}

/** A call of a new account, whose limit is 10 requests a minute. */
async function request(changes: Partial<NewCall> = {}): Promise<Request> {
  const { id: userId } = await rows((await database).db).user()
  return {
    call: newCall(userId, changes),
    counters: [{ key: `budget/${userId}`, allow: 10, perSeconds: 60, blockSeconds: 60, code: 'RATE_LIMIT' }],
  }
}

const again = ({ call, counters }: Request): Request => ({ call: { ...call, id: newId() }, counters })
const used = ({ standings }: CountedCall) => standings.map(each => each.used)
const slots = async ({ call }: Request) =>
  (await (await database).db('ai_calls').where({ user_id: call.userId })).length

test.serial('calls of all accounts that arrive together are counted and admitted by one statement', async t => {
  const { db } = await database
  const [ana, ben] = [await request(), await request({ slots: 1 })]
  const shared: Counter = { key: `outside/${newId()}`, allow: 10, perSeconds: 60, blockSeconds: 0, code: 'RATE_LIMIT' }
  for (const { counters } of [ana, ben]) counters.push(shared)
  const sent = [ana, ben, again(ben), again(ana)]
  let answers: CountedCall[] = []
  const statements = await statementsOf(async () => {
    answers = await Promise.all(sent.map(({ call, counters }) => countAndAdmitCall(db, call, counters)))
  })
  t.is(statements.length, 1)
  t.deepEqual(
    answers.map(answer => [used(answer), answer.admission]),
    [
      [[1, 1], { granted: 90 }],
      [[1, 2], { granted: 90 }],
      [[2, 3], { refusal: 'CONCURRENT_LIMIT_REACHED', waitSeconds: 1 }],
      [[2, 4], { granted: 90 }],
    ],
  )
})

test.serial('a request that a limit refuses is counted, and takes no slot', async t => {
  const { db } = await database
  const ana = await request()
  await countRequests(db, ana.counters, 9)
  t.like(await countAndAdmitCall(db, ana.call, ana.counters), { admission: { granted: 90 } })
  const { call, counters } = again(ana)
  const refused = await countAndAdmitCall(db, call, counters)
  t.deepEqual([used(refused), refused.admission, await slots(ana)], [[11], null, 1])
  await startBlock(db, counters[0]!)
  const blocked = await countAndAdmitCall(db, call, counters)
  t.true(blocked.standings[0]!.blocked_ms > 0)
  t.deepEqual([used(blocked), blocked.admission, await slots(ana)], [[0], null, 1])
})

test.serial(
  'a request of one account that its limit refuses leaves those that arrive with it to be admitted',
  async t => {
    const { db } = await database
    const [ana, ben] = [await request(), await request()]
    await countRequests(db, ana.counters, 10)
    const [ofAna, ofBen] = await Promise.all(
      [ana, ben].map(({ call, counters }) => countAndAdmitCall(db, call, counters)),
    )
    t.deepEqual([used(ofAna!), ofAna!.admission, await slots(ana)], [[11], null, 0])
    t.deepEqual([used(ofBen!), ofBen!.admission, await slots(ben)], [[1], null, 0])
    t.deepEqual(await admitCall(db, ben.call), { granted: 90 })
  },
)

test.serial(
  'of 40 requests in two processes exactly as many are within the limit as it allows, and no other is admitted',
  async t => {
    const { db, url } = await database
    const other = openDatabase({ url, pool: 5 })
    t.teardown(() => other.destroy())
    const ana = await request()
    const sent = Array.from({ length: 40 }, () => again(ana))
    const answers = await Promise.all(
      sent.map(({ call, counters }, n) => countAndAdmitCall(n % 2 === 0 ? db : other, call, counters)),
    )
    t.deepEqual(
      answers.flatMap(used).sort((a, b) => a - b),
      sent.map((_, n) => n + 1),
    )
    for (const { standings, admission } of answers) if (admission) t.true(standings[0]!.used <= 10)
  },
)

/** Runs `work` while something else has locked the budget of an account. */
async function whileLocked(budget: string, work: () => Promise<void>): Promise<void> {
  const { db } = await database
  const operator = await db.transaction()
  try {
    await operator('ai_budgets').where({ subject: budget }).forUpdate()
    await work()
  } finally {
    await operator.rollback()
  }
}

test.serial(
  'while a budget is locked by something else, its call is counted, and no counter waits with it',
  async t => {
    const { db } = await database
    const ana = await request()
    await admitCall(db, ana.call)
    await settleCall(db, ana.call, { prompt: 1, completion: 1 })
    const { call, counters } = again(ana)
    let answer: Promise<CountedCall>
    await whileLocked(`user/${call.userId}`, async () => {
      answer = countAndAdmitCall(db, call, counters)
      await comesTrue(async () => (await db('rate_limits').where({ key: counters[0]!.key }).first('used'))?.used === 1)
      t.is((await countRequest(db, counters))[0]!.used, 2, 'counted once, and not locked')
    })
    const { standings, admission } = await answer!
    t.deepEqual([standings[0]!.used, admission], [1, { granted: 90 }])
  },
)

test.serial('a budget that something else has locked delays the calls of another account once', async t => {
  const { db } = await database
  const [stuck, free] = [await request(), await request()]
  for (const { counters } of [stuck, free]) counters[0]!.allow = 1000
  await admitCall(db, stuck.call)
  const send = ({ call, counters }: Request) => countAndAdmitCall(db, call, counters)
  const waiting: Promise<CountedCall>[] = []
  const sent = await statementsOf(() =>
    whileLocked(`user/${stuck.call.userId}`, async () => {
      for (let round = 0; round < 12; round++) {
        waiting.push(send(again(stuck)))
        t.deepEqual((await send(again(free))).admission, { granted: 90 })
      }
    }),
  )
  const shared = sent.filter(({ text }) => text.includes('ai_count_and_admit_all')).map(({ values }) => values[1])
  t.is(shared.filter(accounts => (accounts as string[]).includes(stuck.call.userId)).length, 1)
  for (const { admission } of await Promise.all(waiting)) t.deepEqual(admission, { granted: 90 })
})

test.serial('a limit refuses while a budget is locked too, and takes no slot', async t => {
  const { db } = await database
  const ana = await request()
  await admitCall(db, ana.call)
  await countRequests(db, ana.counters, 10)
  await whileLocked(`user/${ana.call.userId}`, async () => {
    const { call, counters } = again(ana)
    const refused = await countAndAdmitCall(db, call, counters)
    t.deepEqual([used(refused), refused.admission], [[11], null])
  })
  t.is(await slots(ana), 1)
})

test.serial('counting, admitting and settling in any order never wait for each other in a circle', async t => {
  const { db, url } = await database
  const other = openDatabase({ url, pool: 8 })
  t.teardown(() => other.destroy())
  const budgets = { account: 1_000_000, key: null, platform: 10_000_000 }
  const accounts = await Promise.all(Array.from({ length: 8 }, () => request({ budgets })))
  for (const { counters } of accounts) counters[0]!.allow = 1000
  const work = Array.from({ length: 400 }, async (_, n) => {
    const on = n % 2 === 0 ? db : other
    const { call, counters } = again(accounts[(n * 5) % accounts.length]!)
    if (n % 5 === 0) return countRequest(on, counters)
    const { admission } = await countAndAdmitCall(on, call, counters)
    t.deepEqual(admission ?? (await admitCall(on, call)), { granted: 90 })
    return settleCall(on, call, { prompt: 1, completion: 1 })
  })
  await t.notThrowsAsync(Promise.all(work))
  const tokens = await db('ai_budgets').where({ subject: 'platform' }).first('tokens')
  t.is(Number(tokens.tokens), 320 * 2)
})
