import test, { type ExecutionContext } from 'ava'
import type { Analytics } from '../../../../activities/analytics/port.ts'
import { noAnalytics } from '../../../../api/network/analytics-client.ts'
import { RememberedAnswers } from '../../../../api/network/remembered-answers.ts'
import type { AppRow } from '../../../../db/apps/apps.ts'
import { Busy, breakdownNames } from '../../../../policy/network/analytics-terms.ts'
import { filterNames } from '../../../../policy/network/filters.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { browsers, linesOf, logged } from '../../../kit/analytics/log-lines.ts'
import { makeWorkspace } from '../../../kit/rows/workspaces.ts'

const api = testApi({ scale: 1000 })
const kinds = ['analytics', 'errors', 'logs', 'performance'] as const
type Kind = (typeof kinds)[number]

const pathOf = (app: Pick<AppRow, 'id'>, kind: Kind, query: Record<string, string> = {}) =>
  `/v2/apps/${app.id}/network/${kind}?${new URLSearchParams(query)}`
const ask = (user: TestUser, app: Pick<AppRow, 'id'>, kind: Kind, query: Record<string, string> = {}) =>
  api()
    .as(user)
    .get(pathOf(app, kind, query))

/** An application that was created two days ago, with three requests of the last hour. */
async function appWithRequests(plan = 'pro-12') {
  const ana = await api().makeUser({ plan })
  const app = await api().makeApp(ana)
  const at = Date.now() - 3_600_000
  await api()
    .db('apps')
    .where({ id: app.id })
    .update({ created_at: new Date(Date.now() - 2 * 86_400_000) })
  const lines = linesOf([
    logged({ app: app.id, at, path: '/a', query: 'q=1', bytes: 10 }),
    logged({ app: app.id, at, path: '/b', status: 404, bytes: 20, edge_ms: 30, origin_ms: 25 }),
    logged({ app: app.id, at: at + 1, path: '/a', status: 502, bytes: 30, cache: 'MISS' }),
  ])
  await api().analytics.take({ day: 'd', file: app.id, head: '', end: 1, lines })
  return { ana, app, at }
}

/** Answers of the engine are what a test says, and none is remembered, until the test ends. */
function engineIs(t: ExecutionContext, analytics: Analytics, answers = new RememberedAnswers()): void {
  const { services } = api()
  const before = { analytics: services.analytics, networkAnswers: services.networkAnswers }
  Object.assign(services, { analytics, networkAnswers: answers })
  t.teardown(() => Object.assign(services, before))
}

const throwing = (error: Error): Analytics => ({
  ask: async () => {
    throw error
  },
})

test('analytics have 14 breakdowns, each entry with all five keys, and every filter applies to all', async t => {
  const { ana, app } = await appWithRequests()
  const { status, body } = await ask(ana, app, 'analytics')
  t.is(status, 200)
  t.deepEqual(Object.keys(body.response).sort(), [...breakdownNames].sort())
  for (const name of breakdownNames)
    for (const entry of body.response[name])
      t.deepEqual(Object.keys(entry).sort(), ['bytes', 'date', 'requests', 'type', 'visits'], name)
  t.deepEqual(
    body.response.status_codes.map(({ type, requests }: { type: string; requests: number }) => [type, requests]),
    [
      ['200', 1],
      ['404', 1],
      ['502', 1],
    ],
  )
  const filtered = (await ask(ana, app, 'analytics', { path: '/a', status: '502', country: 'br' })).body.response
  for (const name of breakdownNames) if (name !== 'bots') t.is(filtered[name][0].requests, 1, name)
})

test('errors count those of the server, and of clients on request', async t => {
  const { ana, app } = await appWithRequests()
  const { body } = await ask(ana, app, 'errors')
  t.deepEqual(body.response.summary, { total: 1, by_class: { '4xx': 0, '5xx': 1 } })
  const all = (await ask(ana, app, 'errors', { include_4xx: 'true' })).body.response
  t.deepEqual(all.summary, { total: 2, by_class: { '4xx': 1, '5xx': 1 } })
  t.is((await ask(ana, app, 'errors', { include_4xx: 'maybe' })).body.code, 'INVALID_PARAMETERS')
})

test('a line of the log is in three groups, and flat with the same sixteen keys', async t => {
  const { ana, app, at } = await appWithRequests()
  const { body } = await ask(ana, app, 'logs')
  t.is(body.response.length, 3)
  const { timestamp, client, request, response, ...flat } = body.response[0]
  t.is(timestamp, new Date(at + 1).toISOString())
  t.deepEqual(client, {
    ip: '200.160.2.3',
    country: 'BR',
    location: null,
    asn: 'NIC.br (22548)',
    agent: browsers[0],
    category: null,
  })
  t.deepEqual(request, {
    mitigated: false,
    method: 'GET',
    host: 'a.apps.localhost',
    path: '/a',
    query: null,
    protocol: 'HTTP/1.1',
    referer: null,
  })
  t.deepEqual(response, { status: 502, contentType: 'text/html', cache: 'miss' })
  t.deepEqual(flat, { ...client, ...request, ...response })
  t.is(Object.keys(flat).length, 16)
})

test('latencies are whole milliseconds', async t => {
  const { ana, app } = await appWithRequests()
  const { body } = await ask(ana, app, 'performance')
  t.deepEqual(body.response.summary, {
    edge: { p50: 12, p95: 30, p99: 30 },
    origin: { p50: 10, p95: 25, p99: 25 },
    requests: 3,
  })
})

test('the proxy that answered is located where its operator says, and others nowhere', async t => {
  const { ana, app } = await appWithRequests()
  const { edge } = api().services.config
  const { place } = edge
  t.teardown(() => Object.assign(edge, { place }))
  const location = { city: 'São Paulo', country: 'BR' }
  const colos = async (name: string) => {
    Object.assign(edge, { place: { name, location } })
    api().services.networkAnswers = new RememberedAnswers()
    return (await ask(ana, app, 'performance')).body.response.colos
  }
  const latency = { p50: 12, p95: 30, requests: 3 }
  t.deepEqual(await colos('gru'), [{ type: 'gru', ...location, ...latency }])
  t.deepEqual(await colos('lis'), [{ type: 'gru', city: null, country: null, ...latency }])
})

test('log lines and latencies need the plan Pro of the owner, also for members', async t => {
  for (const plan of ['hobby-1', 'standard-8']) {
    const { ana, app } = await appWithRequests(plan)
    for (const kind of kinds) {
      const { status, body } = await ask(ana, app, kind)
      const isOpen = kind === 'analytics' || kind === 'errors'
      t.deepEqual([status, body.code], isOpen ? [200, undefined] : [403, 'UPGRADE_REQUIRED'], `${plan} ${kind}`)
    }
  }
  const { ana, app } = await appWithRequests('enterprise-24')
  const bob = await api().makeUser({ plan: 'hobby-1' })
  await makeWorkspace(api().db, ana, { members: [[bob, 'view']], apps: [app] })
  t.is((await ask(bob, app, 'logs')).status, 200)
})

test('an invalid time range is refused, and one before the application is empty', async t => {
  const { ana, app } = await appWithRequests()
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString()
  for (const kind of kinds) {
    for (const query of [
      { start: 'x' },
      { end: '' },
      { start: day(8), end: day(0) },
      { start: day(1), end: day(2) },
      { start: day(-1) },
    ]) {
      const { status, body } = await ask(ana, app, kind, query as Record<string, string>)
      t.deepEqual([status, body.code], [400, 'INVALID_TIME_RANGE'], `${kind} ${JSON.stringify(query)}`)
    }
    const { body } = await ask(ana, app, kind, { start: day(6), end: day(4) })
    t.deepEqual(body.response, kind === 'logs' ? [] : {}, kind)
    t.is((await ask(ana, app, kind, { start: day(6), end: day(0) })).status, 200)
  }
  const twice = `/v2/apps/${app.id}/network/errors?start=2026-01-01&start=2026-01-02`
  t.is((await api().as(ana).get(twice)).status, 400)
})

test('a filter that no request could have is refused', async t => {
  const { ana, app } = await appWithRequests()
  const lengths = {
    path: 256,
    os: 64,
    browser: 64,
    protocol: 16,
    referer: 255,
    provider: 100,
    content_type: 64,
    bot: 64,
  }
  const code = async (query: Record<string, string>) => {
    const { status, body } = await ask(ana, app, 'analytics', query)
    return status === 200 ? 200 : body.code
  }
  for (const [name, max] of Object.entries(lengths)) {
    t.is(await code({ [name]: 'x'.repeat(max) }), 200, name)
    const possible = name === 'path' ? ['a\nb', '\ud800'] : ['\ud800']
    for (const value of ['', 'x'.repeat(max + 1), 'a\u0000b', 'a\nb', '\ud800'])
      t.is(
        await code({ [name]: value }),
        possible.includes(value) ? 200 : 'INVALID_FILTER',
        `${name} ${JSON.stringify(value.slice(0, 5))}`,
      )
    for (const value of ["'", '%', '"; drop table requests', '$app', '\\'])
      t.is(await code({ [name]: value.slice(0, max) }), 200, `${name} ${value}`)
  }
  for (const value of ['B', 'BRA', '12', 'B ']) t.is(await code({ country: value }), 'INVALID_FILTER', value)
  for (const value of ['1.2.3', 'localhost', '1.2.3.4/8', '']) t.is(await code({ ip: value }), 'INVALID_FILTER', value)
  for (const value of ['99', '600', '2xx', '200 ', '0200']) t.is(await code({ status: value }), 'INVALID_FILTER', value)
  t.is(await code({ ip: '2001:db8::1' }), 200)
  t.is(filterNames.length, 11)
})

test.serial('an answer is remembered, and says so in a header and, where it is an object, in a key', async t => {
  const { ana, app } = await appWithRequests()
  for (const kind of kinds) {
    const first = await ask(ana, app, kind)
    t.is(first.headers.get('x-cached-at'), null, kind)
    t.is(first.body.response.cached_at, undefined)
    const second = await ask(ana, app, kind)
    const date = second.headers.get('x-cached-at')
    t.regex(date ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, kind)
    const expected = kind === 'logs' ? first.body.response : { ...first.body.response, cached_at: date }
    t.deepEqual(second.body.response, expected, kind)
    t.is(
      (await ask(ana, app, kind, { end: new Date(Date.now() - 3_600_000).toISOString() })).headers.get('x-cached-at'),
      null,
    )
  }
})

test.serial('a busy engine gives the last answer, or 503 with when to come again', async t => {
  const { ana, app } = await appWithRequests()
  let now = Date.now()
  const answers = new RememberedAnswers({ now: () => now })
  engineIs(t, api().analytics, answers)
  for (const kind of kinds) await ask(ana, app, kind)
  api().services.analytics = throwing(new Busy('Other questions are being answered.'))
  now += 600_000
  for (const kind of kinds) {
    const { status, headers } = await ask(ana, app, kind)
    t.is(status, 200, kind)
    t.truthy(headers.get('x-cached-at'), kind)
  }
  now += 600_000
  for (const kind of kinds) {
    const { status, body, headers } = await ask(ana, app, kind)
    t.deepEqual([status, body.code, headers.get('retry-after')], [503, 'ANALYTICS_BUSY', '5'], kind)
  }
})

test.serial('an installation without analytics says so', async t => {
  const { ana, app } = await appWithRequests()
  engineIs(t, noAnalytics)
  for (const kind of kinds) {
    const { status, body } = await ask(ana, app, kind)
    t.deepEqual([status, body.code], [503, 'ANALYTICS_BUSY'])
    t.regex(body.message, /switched/)
  }
})

test.serial('a defect of the engine has a code of each question, and reveals no details', async t => {
  const { ana, app } = await appWithRequests()
  engineIs(t, throwing(new Error('Binder Error: secret')))
  const codes = {
    analytics: 'UNABLE_TO_FETCH_ANALYTICS',
    errors: 'UNABLE_TO_FETCH_ERRORS',
    logs: 'UNABLE_TO_FETCH_ANALYTICS',
    performance: 'UNABLE_TO_FETCH_PERFORMANCE',
  }
  for (const kind of kinds) {
    const { status, body, text } = await ask(ana, app, kind)
    t.deepEqual([status, body.code], [500, codes[kind]])
    t.false(text.includes('secret'))
  }
})
