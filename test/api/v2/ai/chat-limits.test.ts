import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { openDatabase } from '../../../../db/database.ts'
import { openApiFor, type TestApi, type TestUser } from '../../../kit/actors/api.ts'
import { callsTo, chat, testChatApi } from '../../../kit/actors/chat-api.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const { api, server } = testChatApi({ dailyTokens: 50_000_000 })
const undo: (() => Promise<unknown>)[] = []
/** Two API processes, as far as slots and budgets can tell. */
let pair: [TestApi, TestApi]

// Before the database, which is dropped after it.
test.serial.after.always('end both', async () => {
  for (const { services } of pair ?? []) await services.chatCalls.end(0)
  for (const step of undo.reverse()) await step()
})
const database = testDatabase()

test.before('two processes on one database', async () => {
  const open = async () => {
    const { url } = await database
    const db = openDatabase({ url, pool: 10 })
    undo.push(() => db.destroy())
    const services = ({ log }: TestApi['services']) => ({
      db,
      chatCalls: callsTo(server(), { db, log, countTokens: null, searches: false, dailyTokens: null }),
    })
    return openApiFor(await database, { services }, undo)
  }
  pair = [await open(), await open()]
})
test.beforeEach(() => server().reset())

/** A promise that a test ends. */
function pending(): { promise: Promise<void>; end(): void } {
  let end = () => {}
  const promise = new Promise<void>(resolve => {
    end = resolve
  })
  return { promise, end }
}

const seen = ({ status, body, headers }: Awaited<ReturnType<typeof chat>>) => [
  status,
  body.error?.code,
  body.error?.type,
  headers.get('retry-after'),
  headers.get('x-should-retry'),
]

test.serial('a second call at a time is refused until the first is answered, by any process', async t => {
  const ana = await pair[0].makeUser({ plan: 'enterprise-24' })
  const held = pending()
  server().otherwise = { after: held.promise }
  const first = [chat(pair[0], ana), chat(pair[1], ana)]
  await server().received(2)
  for (const process of pair)
    t.deepEqual(seen(await chat(process, ana)), [429, 'concurrent_limit_reached', 'rate_limit_error', '1', null])
  held.end()
  t.deepEqual(
    (await Promise.all(first)).map(answer => answer.status),
    [200, 200],
  )
  t.is((await chat(pair[1], ana)).status, 200)
  t.is(server().mostOpen, 2)
})

test.serial('of many concurrent calls in two processes an account gets its slots and no more', async t => {
  const ana = await pair[0].makeUser({ plan: 'enterprise-24' })
  const held = pending()
  server().otherwise = { after: held.promise }
  let refused = 0
  const asked = Array.from({ length: 30 }, async (_, n) => {
    const answer = await chat(pair[n % 2]!, ana)
    if (answer.status !== 200 && ++refused === 28) held.end()
    return answer
  })
  const answers = await Promise.all(asked)
  const codes = answers.map(answer => answer.body.error?.code ?? answer.status)
  t.is(codes.filter(code => code === 200).length, 2)
  t.is(codes.filter(code => code === 'concurrent_limit_reached').length, 28)
})

test.serial('a call before the pacing is over is to wait, and not counted', async t => {
  const ana = await pair[0].makeUser({ plan: 'pro-12' })
  t.is((await chat(pair[0], ana)).status, 200)
  const early = seen(await chat(pair[1], ana))
  t.deepEqual(early.slice(0, 3), [429, 'rate_limit_exceeded', 'rate_limit_error'])
  t.true(['1', '2'].includes(String(early[3])), String(early[3]))
  await sleep(Number(early[3]) * 1000)
  t.is((await chat(pair[1], ana)).status, 200)
})

/** As if the account had used so many tokens today. */
async function use({ db }: TestApi, subject: string, tokens: number): Promise<void> {
  await db('ai_budgets')
    .insert({ subject, tokens, day: db.raw(`(now() at time zone 'UTC')::date`) })
    .onConflict('subject')
    .merge()
}

const secondsToMidnight = () => (86_400_000 - (Date.now() % 86_400_000)) / 1000

/** Unless midnight is near, it is a wait that no client would sit out. */
function assertUntilMidnight(t: import('ava').ExecutionContext, answer: ReturnType<typeof seen>): void {
  t.true(Math.abs(Number(answer[3]) - secondsToMidnight()) < 30 || secondsToMidnight() < 30)
  if (secondsToMidnight() > 120) t.is(answer[4], 'false', 'clients would try again at once')
}

test.serial('the day of an account ends at its budget: n tokens fit, n + 1 do not', async t => {
  const ana = await pair[0].makeUser({ plan: 'enterprise-24' })
  const subject = `user/${ana.id}`
  // The message has an estimate of 6 tokens; an answer has at least 16.
  await use(pair[0], subject, 5_000_000 - 22)
  t.is((await chat(pair[0], ana)).status, 200)
  t.is(server().requests.at(-1)!.body.max_tokens, 16)
  await use(pair[0], subject, 5_000_000 - 21)
  const refused = seen(await chat(pair[1], ana))
  t.deepEqual(refused.slice(0, 3), [429, 'daily_limit_reached', 'rate_limit_error'])
  assertUntilMidnight(t, refused)
})

test.serial('a key with a limit of its own ends earlier, and other credentials of the account go on', async t => {
  const ana = await pair[0].makeUser({ plan: 'enterprise-24' })
  const limited = await pair[0].makeKey(ana, { scopes: ['ai:chat'] })
  await pair[0].db('api_keys').where({ id: limited.id }).update({ ai_tokens_per_day: 1000 })
  server().otherwise = { usage: { prompt: 6, completion: 973 } }
  t.is((await chat(pair[0], limited.key)).status, 200)
  t.is(server().requests.at(-1)!.body.max_tokens, 994)
  const refused = seen(await chat(pair[1], limited.key))
  t.deepEqual(refused.slice(0, 3), [429, 'daily_spend_limit_reached', 'rate_limit_error'])
  assertUntilMidnight(t, refused)
  t.is((await chat(pair[1], ana)).status, 200)
})

test.serial('the day of the whole platform ends for everybody', async t => {
  const [ana, ben] = [await api().makeUser({ plan: 'enterprise-24' }), await api().makeUser({ plan: 'pro-12' })]
  await use(api(), 'platform', 50_000_000 - 10)
  for (const user of [ana, ben]) {
    const refused = seen(await chat(api(), user))
    t.deepEqual(refused.slice(0, 3), [503, 'daily_capacity_reached', 'server_error'])
    assertUntilMidnight(t, refused)
  }
  await use(api(), 'platform', 0)
  t.is((await chat(api(), ana)).status, 200)
  t.like(await api().db('ai_budgets').where({ subject: 'platform' }).first(), { tokens: '12' })
})

test.serial('generated tokens are charged to the account, and counted by day and key', async t => {
  const ana = await pair[0].makeUser({ plan: 'enterprise-24' })
  server().otherwise = { usage: { prompt: 100, completion: 23 } }
  t.is((await chat(pair[0], ana)).status, 200)
  t.is((await chat(pair[1], ana.session)).status, 200)
  t.like(
    await pair[0]
      .db('ai_budgets')
      .where({ subject: `user/${ana.id}` })
      .first(),
    { tokens: '246' },
  )
  const days = await pair[0].db('ai_days').where({ user_id: ana.id }).orderBy('key_id')
  t.deepEqual(
    days.map(day => [day.key_id, day.requests, day.prompt_tokens, day.completion_tokens]),
    [
      ['', '1', '100', '23'],
      [ana.keyId, '1', '100', '23'],
    ],
  )
})

test.serial('an account with slow calls and many refusals delays no other', async t => {
  const [slow, quick] = [
    await pair[0].makeUser({ plan: 'enterprise-24' }),
    await pair[0].makeUser({ plan: 'enterprise-24' }),
  ]
  server().otherwise = ({ body }) => (body.messages[0].content === 'slow' ? { silentAfter: 0 } : {})
  const ending = new AbortController()
  const ask = (user: TestUser) =>
    fetch(`${pair[0].url}/v2/ai/chat/completions`, {
      method: 'POST',
      headers: { authorization: user.key },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'slow' }] }),
      signal: ending.signal,
    }).catch(() => undefined)
  const held = Array.from({ length: 40 }, () => ask(slow))
  await server().received(2)
  for (let n = 0; n < 10; n++) t.is((await chat(pair[0], quick)).status, 200)
  t.is(server().open, 2, 'the slow account holds its two slots, and nothing else')
  ending.abort()
  await Promise.all(held)
})
