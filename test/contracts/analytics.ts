import type { ExecutionContext, SerialFn, TestFn } from 'ava'
import type { Analytics, Intake, Question, TrafficEntry } from '../../activities/analytics/port.ts'
import { breakdownNames } from '../../policy/network/analytics-terms.ts'
import type { Filters } from '../../policy/network/filters.ts'
import { appA, appB, bots, browsers, type LoggedRequest, linesOf, logged } from '../kit/analytics/log-lines.ts'

const day = '2026-11-26'
const noon = Date.parse(`${day}T12:00:00Z`)
const hour = 3_600_000
const wholeDay = { from: noon - 12 * hour, to: noon + 12 * hour }

/** The contract of analytics and of their intake. `open` makes an empty one for each test. */
export function analyticsContract(
  test: TestFn | SerialFn,
  name: string,
  open: (t: ExecutionContext) => Promise<Analytics & Intake>,
): void {
  const withRequests = async (t: ExecutionContext, requests: readonly LoggedRequest[]) => {
    const analytics = await open(t)
    const lines = linesOf(requests)
    await analytics.take({ day, file: 'access-2026-11-26T12.log', head: 'h', end: lines.length, lines })
    const about = { appId: appA, ownerId: '1', window: wholeDay }
    return {
      analytics,
      traffic: (filters: Filters = {}, changes: Partial<Question> = {}) =>
        analytics.ask({ ...about, ...changes, kind: 'analytics', filters } as Question & { kind: 'analytics' }),
      errors: (include4xx: boolean) => analytics.ask({ ...about, kind: 'errors', include4xx }),
      logs: () => analytics.ask({ ...about, kind: 'logs' }),
      performance: () => analytics.ask({ ...about, kind: 'performance' }),
    }
  }
  const short = (entries: TrafficEntry[]) => entries.map(({ type, requests }) => [type, requests])

  test(`${name}: without requests everything is empty`, async t => {
    const { traffic, errors, logs, performance } = await withRequests(t, [])
    t.deepEqual(await traffic(), Object.fromEntries(breakdownNames.map(breakdown => [breakdown, []])))
    t.deepEqual(await errors(true), {
      summary: { total: 0, by_class: { '4xx': 0, '5xx': 0 } },
      by_status: [],
      timeseries: [],
      top_paths: [],
      by_method: [],
    })
    t.deepEqual(await logs(), [])
    const none = { p50: 0, p95: 0, p99: 0 }
    t.deepEqual(await performance(), {
      summary: { edge: none, origin: none, requests: 0 },
      timeseries: [],
      countries: [],
      colos: [],
      slowest_paths: [],
    })
  })

  test(`${name}: an application sees its own requests, of the window only, in buckets of 15 minutes`, async t => {
    const { traffic } = await withRequests(t, [
      logged({ at: noon - 1 }),
      logged({ at: noon, bytes: 5 }),
      logged({ at: noon + 899_999, bytes: 7, referer: 'https://a.apps.localhost/x' }),
      logged({ at: noon + 900_000, bytes: 11 }),
      logged({ at: noon + hour }),
      logged({ at: noon, app: appB }),
      logged({ at: noon, app: '' }),
    ])
    const { visits, ips } = await traffic({}, { window: { from: noon, to: noon + hour } })
    t.deepEqual(visits, [
      { type: 'all', date: '2026-11-26T12:00:00.000Z', visits: 1, requests: 2, bytes: 12 },
      { type: 'all', date: '2026-11-26T12:15:00.000Z', visits: 1, requests: 1, bytes: 11 },
    ])
    t.deepEqual(ips, [{ type: '200.160.2.3', date: '2026-11-26T12:00:00.000Z', visits: 2, requests: 3, bytes: 23 }])
  })

  test(`${name}: a visit is a page that was opened from elsewhere, and by no bot`, async t => {
    const count = async (changes: Partial<LoggedRequest>) => {
      const { traffic } = await withRequests(t, [logged({ at: noon, ...changes })])
      return (await traffic()).visits[0]!.visits
    }
    t.is(await count({}), 1)
    t.is(await count({ status: 304 }), 1)
    t.is(await count({ referer: 'https://www.google.com/' }), 1)
    t.is(await count({ content_type: 'Text/HTML' }), 1)
    t.is(await count({ referer: 'https://a.apps.localhost/other' }), 0)
    t.is(await count({ referer: 'http://A.APPS.LOCALHOST:8080' }), 0)
    t.is(await count({ method: 'POST' }), 0)
    t.is(await count({ status: 404 }), 0)
    t.is(await count({ content_type: 'application/json' }), 0)
    for (const agent of bots) t.is(await count({ agent }), 0, agent)
  })

  test(`${name}: missing and unknown values have a name, and addresses of the platform are masked`, async t => {
    const { traffic, logs } = await withRequests(t, [
      logged({ at: noon, client: '127.0.0.1', method: 'BREW', protocol: 'X/1', content_type: '', agent: '' }),
      logged({ at: noon, client: '10.0.0.9', agent: bots[0] }),
      logged({ at: noon, client: '::1', agent: 'unheard-of-crawler/1.0 (bot)' }),
    ])
    const answer = await traffic()
    t.deepEqual(short(answer.ips), [['BERTH-PLATFORM', 3]])
    t.deepEqual(short(answer.providers), [['BERTH-PLATFORM', 3]])
    t.deepEqual(short(answer.countries), [['XX', 3]])
    t.deepEqual(short(answer.referers), [['Direct', 3]])
    t.deepEqual(short(answer.methods), [
      ['GET', 2],
      ['Other', 1],
    ])
    t.deepEqual(short(answer.protocols), [
      ['HTTP/1.1', 2],
      ['Unknown', 1],
    ])
    t.deepEqual(short(answer.content_types), [
      ['text/html', 2],
      ['Unknown', 1],
    ])
    t.deepEqual(short(answer.devices), [
      ['Unknown', 1],
      ['bot', 2],
    ])
    t.deepEqual(short(answer.bots), [
      ['Search Engine', 1],
      ['Unverified', 1],
    ])
    t.deepEqual(
      (await logs()).map(({ ip, country, asn }) => [ip, country, asn]),
      Array.from({ length: 3 }, () => [null, null, 'BERTH-PLATFORM']),
    )
  })

  test(`${name}: only the most frequent types are listed: 25 paths, 100 addresses`, async t => {
    const { traffic } = await withRequests(
      t,
      Array.from({ length: 300 }, (_, n) =>
        logged({ at: noon + n * 60_000, path: `/${n % 30}`, client: `8.8.${n % 3}.${n % 120}` }),
      ).concat(logged({ at: noon, path: '/29' })),
    )
    const { paths, ips } = await traffic()
    const types = new Set(paths.map(({ type }) => type))
    t.is(types.size, 25)
    t.true(types.has('/29'))
    t.is(ips.length, 100)
  })

  test(`${name}: filters are combined, and their values are only compared`, async t => {
    const quote = `/'; drop table requests; --`
    const { traffic } = await withRequests(t, [
      logged({ at: noon, path: quote }),
      logged({ at: noon, path: '/100%' }),
      logged({ at: noon, path: '/100x', status: 500 }),
      logged({ at: noon, path: '/\u0000nul' }),
    ])
    const requests = async (filters: Filters) =>
      (await traffic(filters)).visits.reduce((sum, entry) => sum + entry.requests, 0)
    t.is(await requests({}), 4)
    t.is(await requests({ path: quote }), 1)
    t.is(await requests({ path: `/'` }), 1)
    t.is(await requests({ path: '/100%' }), 1)
    t.is(await requests({ path: '/100' }), 2)
    t.is(await requests({ path: '/100', status: '500' }), 1)
    t.is(await requests({ path: '/1_0' }), 0)
    t.is(await requests({ path: '/\u0000' }), 1)
    for (const name of ['os', 'browser', 'protocol', 'referer', 'provider', 'content_type', 'bot'] as const)
      for (const value of [`' or '1'='1`, '%', '$app', '"', '\\', 'é'.repeat(200)])
        t.is(await requests({ [name]: value }), 0, `${name} ${value}`)
  })

  test(`${name}: errors are those of the server, and of clients on request`, async t => {
    const { errors } = await withRequests(t, [
      logged({ at: noon, status: 500, path: '/a' }),
      logged({ at: noon + 900_000, status: 502, path: '/a', method: 'POST' }),
      logged({ at: noon, status: 404, path: '/b' }),
      logged({ at: noon, status: 200 }),
    ])
    const { summary, by_status: byStatus } = await errors(false)
    t.deepEqual(summary, { total: 2, by_class: { '4xx': 0, '5xx': 2 } })
    t.deepEqual(byStatus, [
      { status: 500, requests: 1, total: 1 },
      { status: 502, requests: 1, total: 1 },
    ])
    const all = await errors(true)
    t.deepEqual(all.summary, { total: 3, by_class: { '4xx': 1, '5xx': 2 } })
    t.deepEqual(all.timeseries, [
      { date: '2026-11-26T12:00:00.000Z', buckets: { 404: 1, 500: 1 }, total: 2 },
      { date: '2026-11-26T12:15:00.000Z', buckets: { 502: 1 }, total: 1 },
    ])
    t.deepEqual(all.by_method, [
      { method: 'GET', total: 2, by_status: { 404: 1, 500: 1 } },
      { method: 'POST', total: 1, by_status: { 502: 1 } },
    ])
    t.is(all.top_paths.length, 3)
  })

  test(`${name}: the newest 1000 lines are listed, newest first, with what was sent`, async t => {
    const { logs } = await withRequests(t, [
      ...Array.from({ length: 1001 }, (_, n) => logged({ at: noon - n })),
      logged({
        at: noon + 1,
        method: 'BREW',
        query: 'a=1',
        referer: 'https://x.example/?y',
        agent: browsers[1],
        cache: 'HIT',
        mitigated: '1',
        status: 429,
      }),
    ])
    const lines = await logs()
    t.is(lines.length, 1000)
    t.is(lines.at(-1)!.timestamp, new Date(noon - 998).toISOString())
    t.deepEqual(lines[0], {
      timestamp: new Date(noon + 1).toISOString(),
      ip: '200.160.2.3',
      country: 'BR',
      location: null,
      asn: 'NIC.br (22548)',
      agent: browsers[1],
      category: null,
      mitigated: true,
      method: 'BREW',
      host: 'a.apps.localhost',
      path: '/',
      query: 'a=1',
      protocol: 'HTTP/1.1',
      referer: 'https://x.example/?y',
      status: 429,
      contentType: 'text/html',
      cache: 'hit',
    })
  })

  test(`${name}: percentiles are exact, of the last try at the application, and of lines that have figures`, async t => {
    const { performance } = await withRequests(t, [
      ...Array.from({ length: 100 }, (_, n) =>
        logged({ at: noon, edge_ms: n + 1, origin_ms: `999, ${n}`, path: '/slow' }),
      ),
      logged({ at: noon + 900_000, edge_ms: undefined, origin_ms: undefined, colo: undefined }),
      logged({ at: noon + 900_000, edge_ms: '', origin_ms: '-' }),
    ])
    const answer = await performance()
    const edge = { p50: 50, p95: 95, p99: 99 }
    const origin = { p50: 49, p95: 94, p99: 98 }
    t.deepEqual(answer, {
      summary: { edge, origin, requests: 100 },
      timeseries: [{ date: '2026-11-26T12:00:00.000Z', requests: 100, edge, origin }],
      countries: [{ type: 'BR', p50: 50, p95: 95, requests: 100 }],
      colos: [{ type: 'gru', city: null, country: null, p50: 50, p95: 95, requests: 100 }],
      slowest_paths: [{ path: '/slow', p95: 95, p99: 99, requests: 100 }],
    })
  })

  test(`${name}: torn lines, lines of 64 KB and bytes that are no text harm no other line`, async t => {
    const analytics = await open(t)
    const good = linesOf([logged({ at: noon })])
    const long = linesOf([logged({ at: noon, path: `/${'x'.repeat(65_536)}`, agent: 'y'.repeat(65_536) })])
    const odd = Buffer.concat([
      Buffer.from('{"app":"'),
      Buffer.from(appA),
      Buffer.from(`","at":${noon / 1000},"host":"a","method":"GET","path":"/`),
      Buffer.from([0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80]),
      Buffer.from(
        '","query":"","status":200,"bytes":1,"client":"8.8.8.8","referer":"","agent":"","protocol":"HTTP/1.1","content_type":""}\n',
      ),
    ])
    const torn = Buffer.concat([
      good.subarray(0, 100),
      good,
      Buffer.alloc(512),
      Buffer.from('\n'),
      Buffer.from('null\n[1]\n"x"\n\n{}\n'),
    ])
    const lines = Buffer.concat([good, torn, long, odd, good])
    t.is(await analytics.take({ day, file: 'f', head: 'h', end: lines.length, lines }), 4)
    const about = { appId: appA, ownerId: '1', window: wholeDay }
    const { visits } = await analytics.ask({ ...about, kind: 'analytics', filters: {} })
    t.is(visits[0]!.requests, 4)
  })

  test(`${name}: progress is that of the last slice of each file`, async t => {
    const analytics = await open(t)
    const lines = linesOf([logged({ at: noon })])
    t.is((await analytics.progressOf(day)).size, 0)
    await analytics.take({ day, file: 'one', head: 'a', end: 10, lines })
    await analytics.take({ day, file: 'two', head: 'b', end: 20, lines: Buffer.alloc(0) })
    await analytics.take({ day, file: 'one', head: 'a', end: 30, lines })
    t.deepEqual([...(await analytics.progressOf(day))].sort(), [
      ['one', { head: 'a', offset: 30 }],
      ['two', { head: 'b', offset: 20 }],
    ])
    t.is((await analytics.progressOf('2026-11-25')).size, 0)
  })
}
