import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import test from 'ava'
import { countRequests } from '../../../../db/limits.ts'
import { defaultPlans } from '../../../../policy/accounts/plans.ts'
import type { TestUser } from '../../../kit/actors/api.ts'
import { callsTo, chat, hello, testChatApi } from '../../../kit/actors/chat-api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const { api, server } = testChatApi({}, { scale: 1, config: { rateLimitBlockSeconds: 1800 } })
test.beforeEach(() => server().reset())

const plan = 'enterprise-24'
const perMinute = defaultPlans.get(plan)!.requestsPerMinute
const budgetOf = ({ id }: TestUser) => ({
  key: `budget/${id}`,
  allow: perMinute,
  perSeconds: 60,
  blockSeconds: 1800,
  code: 'RATE_LIMIT' as const,
})

const counted = async ({ id }: TestUser): Promise<number> =>
  (
    await api()
      .db('rate_limits')
      .where({ key: `budget/${id}` })
      .first('used')
  )?.used ?? 0

/** An account that may send so many requests in this minute. */
async function accountWith(left: number): Promise<TestUser> {
  const ana = await api().makeUser({ plan })
  await countRequests(api().db, [budgetOf(ana)], perMinute - left)
  return ana
}

const tooWarm = { ...hello, temperature: 9 }
const isLimit = ({ status, body }: Awaited<ReturnType<typeof chat>>) =>
  status === 429 && body.error.code === 'rate_limited'

test.serial('each request counts once, whatever becomes of it', async t => {
  const ana = await api().makeUser({ plan })
  const none = await api().makeUser({ plan: 'hobby-1' })
  const outcomes: [status: number, user: TestUser, body: unknown][] = [
    [200, ana, hello],
    [400, ana, tooWarm],
    [400, ana, '{'],
    [400, ana, { ...hello, messages: [{ role: 'user', content: 'word '.repeat(200_000) }] }],
    [403, none, hello],
  ]
  for (const [status, user, body] of outcomes) {
    const before = await counted(user)
    t.is((await chat(api(), user, body)).status, status)
    t.is((await counted(user)) - before, 1, `${status}`)
  }
})

test.serial('a limit refuses before anything else does, without a slot, and no usage lists that', async t => {
  const bodies = [tooWarm, '{', hello]
  const users = await Promise.all(bodies.map(() => accountWith(0)))
  for (const [n, body] of bodies.entries()) {
    const answer = await chat(api(), users[n], body)
    t.true(isLimit(answer), JSON.stringify(answer.body))
    t.deepEqual([answer.headers.get('retry-after'), answer.headers.get('x-should-retry')], ['1800', 'false'])
    t.true(isLimit(await chat(api(), users[n], hello)), 'and until its block ends')
  }
  t.is(server().requests.length, 0)
  t.deepEqual(await api().db('ai_calls'), [])
  const ben = await accountWith(1)
  t.is((await chat(api(), ben, tooWarm)).status, 400)
  const usageOf = (accounts: TestUser[]) => {
    const ids = accounts.map(({ id }) => id)
    return api().db('ai_days').whereIn('user_id', ids)
  }
  await comesTrue(async () => (await usageOf([ben])).length === 1)
  t.deepEqual(await usageOf(users), [])
})

test.serial('of many concurrent calls exactly as many are answered as the limit allows', async t => {
  const ana = await accountWith(5)
  const answers = await Promise.all(Array.from({ length: 20 }, () => chat(api(), ana)))
  t.is(answers.filter(isLimit).length, 15)
})

/** A request whose body has been announced, and does not arrive. */
function unfinished({ key }: TestUser, announced: Record<string, string>): ClientRequest {
  const headers = { authorization: key, 'content-type': 'application/json', ...announced }
  const sent = request(`${api().url}/v2/ai/chat/completions`, { method: 'POST', headers })
  sent.on('error', () => {}) // it is given up
  sent.flushHeaders()
  return sent
}

test.serial('a call that a limit refuses is refused before its body is read', async t => {
  const ana = await accountWith(0)
  t.true(isLimit(await chat(api(), ana)))
  const sent = unfinished(ana, { 'content-length': '1000' })
  // A body that does not arrive is waited for three times as long.
  const [response] = (await once(sent, 'response', { signal: AbortSignal.timeout(10_000) })) as [IncomingMessage]
  t.is(response.statusCode, 429)
  sent.destroy()
})

test.serial('a body that does not arrive keeps no request from being counted', async t => {
  const ana = await api().makeUser({ plan })
  const announced: Record<string, string>[] = [
    { 'content-length': '10' },
    { 'content-length': '1000000' },
    { 'transfer-encoding': 'chunked' },
  ]
  const sent = announced.map(each => unfinished(ana, each))
  let answered = 0
  for (const each of sent) each.once('response', () => answered++)
  await comesTrue(async () => (await counted(ana)) === sent.length)
  t.is(answered, 0)
  for (const each of sent) each.destroy()
})

test.serial('a prompt is counted by its server only for a request within the limits', async t => {
  let prompts = 0
  const { db, log } = api().services
  const exact = callsTo(server(), {
    db,
    log,
    searches: false,
    dailyTokens: null,
    countTokens: async () => ++prompts,
  })
  const { chatCalls } = api().services
  Object.assign(api().services, { chatCalls: exact })
  try {
    t.true(isLimit(await chat(api(), await accountWith(0))))
    t.is(prompts, 0)
    const ana = await accountWith(1)
    t.is((await chat(api(), ana)).status, 200)
    t.deepEqual([prompts, await counted(ana)], [1, perMinute])
  } finally {
    Object.assign(api().services, { chatCalls })
    await exact.end(0)
  }
})
