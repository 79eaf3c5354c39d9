import test from 'ava'
import { Limiter, maxRefusing } from '../../../api/pipeline/limiter.ts'
import { sweepCounters } from '../../../db/limits.ts'
import type { Counter } from '../../../policy/counters.ts'
import type { CodedError } from '../../../policy/errors.ts'
import { openApiFor, testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const api = testApi({ scale: 1, config: { rateLimitBlockSeconds: 1800 } })
const shared = testDatabase()

const statuses = async (count: number, ask: () => Promise<{ status: number }>): Promise<number[]> => {
  const found: number[] = []
  for (let i = 0; i < count; i++) found.push((await ask()).status)
  return found
}

/** The counters of everybody, so much later. */
const later = (seconds: number): Promise<unknown> =>
  api().db.raw(
    `update rate_limits set window_ends_at = window_ends_at - make_interval(secs => ?), blocked_until = blocked_until - make_interval(secs => ?)`,
    [seconds, seconds],
  )

test.serial('the budget of a plan: n pass, n + 1 is refused for 30 minutes, then requests pass again', async t => {
  const ana = await api().makeUser({ plan: 'free' })
  const me = () => api().as(ana).get('/v2/users/me')
  t.deepEqual(await statuses(6, me), [200, 200, 200, 200, 200, 429])
  const refused = await me()
  t.is(refused.body.code, 'RATE_LIMIT')
  const wait = Number(refused.headers.get('retry-after'))
  t.true(wait > 1700 && wait <= 1800, String(wait))
  await later(61)
  t.is((await me()).status, 429, 'a new window does not end the block')
  await later(1790)
  t.deepEqual(await statuses(6, me), [200, 200, 200, 200, 200, 429], 'what was refused meanwhile is not counted')
})

test.serial('a session and a key of one account spend one budget, and another account has its own', async t => {
  const [ana, bob] = [await api().makeUser({ plan: 'free' }), await api().makeUser({ plan: 'free' })]
  t.deepEqual(await statuses(3, () => api().as(ana.key).get('/v2/users/me')), [200, 200, 200])
  t.deepEqual(await statuses(3, () => api().as(ana.session).get('/v2/users/me')), [200, 200, 429])
  t.is((await api().as(bob).get('/v2/users/me')).status, 200)
})

test.serial("an endpoint's own limit: KEEP_CALM until its window ends", async t => {
  const ana = await api().makeUser()
  await api().makeApp(ana)
  const all = () => api().as(ana).get('/v2/apps/status')
  t.deepEqual(await statuses(16, all), [...Array(15).fill(200), 429])
  const refused = await all()
  t.is(refused.body.code, 'KEEP_CALM')
  t.true(Number(refused.headers.get('retry-after')) <= 60)
  await later(60)
  t.is((await all()).status, 200)
})

test.serial('a limit per application lets the next application through', async t => {
  const ana = await api().makeUser()
  const [one, two] = [await api().makeApp(ana), await api().makeApp(ana)]
  t.is((await api().as(ana).post(`/v2/apps/${one.id}/start`)).status, 200)
  t.is((await api().as(ana).post(`/v2/apps/${one.id}/start`)).body.code, 'KEEP_CALM')
  t.is((await api().as(ana).post(`/v2/apps/${one.id}/stop`)).status, 200, 'stopping is another limit')
  t.is((await api().as(ana).post(`/v2/apps/${two.id}/start`)).status, 200)
})

test.serial('limits count before the body is read, and an invalid body counts', async t => {
  const ana = await api().makeUser()
  t.is((await api().as(ana).post('/v2/apps', 'x', { 'content-type': 'text/plain' })).status, 415)
  t.is((await api().as(ana).post('/v2/apps', 'x', { 'content-type': 'text/plain' })).status, 429)
})

test.serial('a failed lookup counts against the budget and not the limit of its route', async t => {
  const ana = await api().makeUser({ plan: 'free' })
  const missing = () =>
    api()
      .as(ana)
      .delete(`/v2/apps/${'f'.repeat(24)}`)
  t.deepEqual(await statuses(6, missing), [404, 404, 404, 404, 404, 429])
})

test.serial('of 200 concurrent requests exactly the allowed number pass', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const answers = await Promise.all(Array.from({ length: 200 }, () => api().as(ana).get('/v2/users/me')))
  t.is(answers.filter(answer => answer.status === 200).length, 60)
  t.is(answers.filter(answer => answer.body.code === 'RATE_LIMIT').length, 140)
})

test.serial('two processes share every counter', async t => {
  const database = await shared
  const undo: (() => Promise<unknown>)[] = []
  const [one, two] = [await openApiFor(database, { scale: 1 }, undo), await openApiFor(database, { scale: 1 }, undo)]
  const ana = await one.makeUser({ plan: 'hobby-1' })
  const answers = await Promise.all(
    Array.from({ length: 80 }, (_, i) => (i % 2 ? one : two).as(ana).get('/v2/users/me')),
  )
  t.is(answers.filter(answer => answer.status === 200).length, 60)
  for (const step of undo.reverse()) await step()
})

test.serial('addresses outside the platform have 300 requests a minute each', async t => {
  const undo: (() => Promise<unknown>)[] = []
  const outside = await openApiFor(await shared, { scale: 0.01, services: () => ({ isInside: () => false }) }, undo)
  t.deepEqual(await statuses(4, () => outside.as(undefined).get('/v2/service/status')), [200, 200, 200, 429])
  for (const step of undo.reverse()) await step()
})

test.serial('a large plan keeps its requests when others behind its address have used up theirs', async t => {
  const undo: (() => Promise<unknown>)[] = []
  const outside = await openApiFor(await shared, { scale: 0.01, services: () => ({ isInside: () => false }) }, undo)
  const large = await outside.makeUser({ plan: 'enterprise-96' })
  const me = () => outside.as(large).get('/v2/users/me')
  await outside.db('rate_limits').delete()
  t.deepEqual(await statuses(8, me), Array(8).fill(200))
  const others = () => outside.as(undefined).get('/v2/service/status')
  t.deepEqual(await statuses(4, others), [200, 200, 200, 429], 'they have all of their own')
  t.deepEqual(await statuses(5, me), [200, 200, 200, 200, 429], 'its 12, whatever the others did')
  for (const step of undo.reverse()) await step()
})

test.serial('of two budgets the caller gets the longer wait, and of a budget and a limit the budget', async t => {
  const limiter = new Limiter(api().db)
  const counter = (key: string, blockSeconds: number, code: 'RATE_LIMIT' | 'KEEP_CALM') =>
    ({ key, allow: 1, perSeconds: 60, blockSeconds, code }) as const
  const waitOf = async (...counters: Counter[]) => {
    await limiter.admit(counters)
    const refusal = await t.throwsAsync<CodedError>(limiter.admit(counters))
    return [refusal.code, refusal.retryAfterSeconds]
  }
  const [long, short] = [counter('a-budget', 1700, 'RATE_LIMIT'), counter('b-budget', 20, 'RATE_LIMIT')]
  t.deepEqual(await waitOf(long, short), ['RATE_LIMIT', 1700])
  t.deepEqual(await waitOf(counter('c-limit', 5000, 'KEEP_CALM'), counter('d-budget', 20, 'RATE_LIMIT')), [
    'RATE_LIMIT',
    20,
  ])
})

test.serial('an IPv6 network counts as one address', async t => {
  const undo: (() => Promise<unknown>)[] = []
  const behind = await openApiFor(await shared, { scale: 1, config: { trustedProxies: ['127.0.0.1'] } }, undo)
  let n = 0
  const from = (network: string) => () =>
    behind.as(undefined).post('/v2/account/sign-in', '{}', { 'x-forwarded-for': `${network}${n++}` })
  t.deepEqual(await statuses(12, from('2001:db8:0:1::')), [...Array(10).fill(400), 429, 429])
  t.is((await from('2001:db8:0:2::')()).status, 400)
  for (const step of undo.reverse()) await step()
})

test.serial('expired counters are swept', async t => {
  await later(100_000)
  await sweepCounters(api().db)
  t.is((await api().db('rate_limits').count({ n: '*' }).first())?.n, '0')
})

test.serial(
  'a budget that has refused is remembered until its block ends; the oldest of very many is forgotten first',
  async t => {
    const limiter = new Limiter((await shared).db)
    const budget = (n: number, code: Counter['code'] = 'RATE_LIMIT'): Counter => ({
      ...{ key: `remembered-${n}`, allow: 1, perSeconds: 60, blockSeconds: 60, code },
    })
    const refuse = (counter: Counter, blocked_ms: number) =>
      t.throwsAsync(limiter.judge([counter], [{ key: counter.key, used: 0, window_ms: 0, blocked_ms }]))
    await refuse(budget(0), 5)
    await refuse(budget(1, 'KEEP_CALM'), 60_000)
    await comesTrue(() => !limiter.hasRefused([budget(0)]))
    for (let n = 2; n <= maxRefusing + 2; n++) await refuse(budget(n), 60_000)
    const remembered = [1, 2, 3, maxRefusing + 2].map(n => limiter.hasRefused([budget(n)]))
    t.deepEqual(remembered, [false, false, true, true])
  },
)
