import { isDeepStrictEqual } from 'node:util'
import test from 'ava'
import { openDuckDb } from '../../../activities/analytics/duckdb.ts'
import type { TrafficAnswer, TrafficEntry } from '../../../activities/analytics/port.ts'
import { breakdowns } from '../../../policy/network/analytics-terms.ts'
import { type FilterName, type Filters, filterNames } from '../../../policy/network/filters.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, generatedRequests, linesOf } from '../../kit/analytics/log-lines.ts'
import { RecountedAnalytics } from '../../kit/fakes/recounted-analytics.ts'
import { ownFolder } from '../../kit/folders.ts'

const days = ['2026-11-24', '2026-11-25']
const from = Date.parse(`${days[0]}T20:00:00Z`)
const midnight = Date.parse(`${days[1]}T00:00:00Z`)
const to = Date.parse(`${days[1]}T04:00:00Z`)
const about = { appId: appA, ownerId: '1', window: { from: from + 1_234_567, to: to - 7_654_321 } }

/** Two values of each filter that some of the requests have, one of them rare. */
const values: Record<FilterName, [string, string]> = {
  country: ['BR', 'XX'],
  ip: ['200.0.0.0', 'BERTH-PLATFORM'],
  path: ['/', '/p/1'],
  status: ['200', '502'],
  os: ['Windows', 'iOS'],
  browser: ['Chrome', 'Firefox'],
  protocol: ['HTTP/1.1', 'Unknown'],
  referer: ['Direct', 'news.example'],
  provider: ['NIC.br (22548)', 'Unknown'],
  content_type: ['text/html', 'Unknown'],
  bot: ['Search Engine', 'Unverified'],
}

const sizes = { rows: 11_000, restRows: 1000, appRows: 1000, rowsPerSum: 2 }

test('every filter and every pair of filters gives what a recount of 100,000 lines gives, over two days', async t => {
  t.timeout(600_000)
  const addresses = await testAddresses()
  const engine = await openDuckDb({
    folder: ownFolder(t),
    addresses,
    onBroken: (_day, error) => t.fail(String(error)),
    rollups: sizes,
  })
  t.teardown(() => engine.close())
  const recount = new RecountedAnalytics(addresses)
  const requests = generatedRequests(100_000, from, to)
  for (const day of days) {
    const ofDay = requests.filter(({ at }) => at * 1000 < midnight === (day === days[0]))
    for (let n = 0; n < ofDay.length; n += 20_000) {
      const lines = linesOf(ofDay.slice(n, n + 20_000))
      for (const taker of [engine, recount]) await taker.take({ day, file: 'f', head: 'h', end: n, lines })
    }
  }
  const pairs = filterNames.flatMap((one, n) =>
    filterNames.slice(n + 1).map((other, m): Filters => ({ [one]: values[one][m % 2], [other]: values[other][n % 2] })),
  )
  const singles = filterNames.flatMap(name => values[name].map((value): Filters => ({ [name]: value })))
  let matched = 0
  for (const filters of [{}, ...singles, ...pairs]) {
    const question = { ...about, kind: 'analytics', filters } as const
    const answer = await engine.ask(question)
    // Thousands of entries: where they differ the test of the contract tells more.
    t.true(isDeepStrictEqual(answer, await recount.ask(question)), JSON.stringify(filters))
    if (answer.visits.length > 0) matched++
    consistent(answer, JSON.stringify(filters), (is, should, what) => t.is(is, should, what))
  }
  t.true(matched > 70, `${matched} combinations match any request`)
  // Both are read at once: the second day is summed only in part.
  const inside = (start: number, end: number) => ({ from: start, to: end })
  const windows = [
    about.window,
    inside(from, to),
    inside(from, midnight),
    inside(from + 1, midnight + 1),
    inside(midnight - 1, to - 1),
    inside(from + 900_000, from + 1_800_000),
    inside(from + 900_001, from + 1_799_999),
  ]
  let runs = 0
  for (let more = true; more; runs++) {
    for (const window of windows) {
      const question = { ...about, window, kind: 'analytics', filters: {} } as const
      t.true(
        isDeepStrictEqual(await engine.ask(question), await recount.ask(question)),
        `${runs} runs, ${JSON.stringify(window)}`,
      )
    }
    more = await engine.rollUp()
  }
  t.is(runs - 1, 5 + 4, 'the first day has half of 100,000 requests, and the second one a rest')
  for (const kind of ['errors', 'performance'] as const) {
    const question = kind === 'errors' ? ({ ...about, kind, include4xx: true } as const) : ({ ...about, kind } as const)
    t.deepEqual(await engine.ask(question), await recount.ask(question), kind)
  }
})

/** A breakdown whose types are few has every request in one of them, so that its sums are those of the whole. */
function consistent(
  answer: TrafficAnswer,
  filters: string,
  same: (is: number, should: number, what: string) => void,
): void {
  const sum = (entries: TrafficEntry[], of: 'visits' | 'requests' | 'bytes') =>
    entries.reduce((all, entry) => all + entry[of], 0)
  const closed = [
    'countries',
    'devices',
    'os',
    'browsers',
    'protocols',
    'methods',
    'referers',
    'status_codes',
    'content_types',
  ] as const
  for (const name of closed)
    for (const of of ['visits', 'requests', 'bytes'] as const)
      same(sum(answer[name], of), sum(answer.visits, of), `${name} ${of} ${filters} ${breakdowns[name].types}`)
}
