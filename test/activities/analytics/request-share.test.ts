import test, { type ExecutionContext } from 'ava'
import { type DuckDbOptions, openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { DuckDbDays } from '../../../activities/analytics/duckdb-days.ts'
import { breakdownNames, bucketMs } from '../../../policy/network/analytics-terms.ts'
import type { Filters } from '../../../policy/network/filters.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, appB, generatedRequests, type LoggedRequest, linesOf, logged } from '../../kit/analytics/log-lines.ts'
import { RecountedAnalytics } from '../../kit/fakes/recounted-analytics.ts'
import { ownFolder } from '../../kit/folders.ts'

const [day, tomorrow] = ['2026-11-26', '2026-11-27'] as const
const from = Date.parse(`${day}T10:00:00Z`)
const to = from + 4 * bucketMs

/** An engine with bounds, and a plain recount without any, that take in the same lines. */
async function scene(t: ExecutionContext, options: Partial<DuckDbOptions>) {
  const folder = ownFolder(t)
  const addresses = await testAddresses()
  const recount = new RecountedAnalytics(addresses)
  const onBroken = (_: string, error: unknown) => t.fail(String(error))
  const rollups = { rows: 1000, restRows: 300, appRows: 100, rowsPerSum: 1 }
  const open = () => openDuckDb({ folder, addresses, onBroken, rollups, ...options })
  let engine = await open()
  t.teardown(() => engine.close())
  const about = (appId: string) => ({ appId, ownerId: '1', window: { from, to: to + 86_400_000 } })
  const totals = async (of: Pick<RecountedAnalytics, 'ask'>, appId: string, filters: Filters) => {
    const { visits, status_codes } = await of.ask({ ...about(appId), kind: 'analytics', filters })
    return { visits, statuses: status_codes }
  }
  return {
    engine: () => engine,
    async take(requests: readonly LoggedRequest[], of: string = day, onlyCounts = false) {
      const slice = { day: of, file: 'f', head: 'h', end: 1, lines: linesOf(requests) }
      await engine.take(slice, onlyCounts)
      await recount.take(slice)
    },
    async sameTotals(what: string) {
      for (const app of [appA, appB]) {
        for (const filters of [{}, { status: '500' }])
          t.deepEqual(await totals(engine, app, filters), await totals(recount, app, filters), `${what}, ${app[0]}`)
        const errors = (of: Pick<RecountedAnalytics, 'ask'>) =>
          of.ask({ ...about(app), kind: 'errors', include4xx: true })
        const [{ summary, by_status, timeseries }, expected] = [await errors(engine), await errors(recount)]
        t.deepEqual(
          { summary, by_status, timeseries },
          {
            summary: expected.summary,
            by_status: expected.by_status,
            timeseries: expected.timeseries,
          },
        )
      }
    },
    analytics: (app: string, filters: Filters = {}) => engine.ask({ ...about(app), kind: 'analytics', filters }),
    logs: (app: string) => engine.ask({ ...about(app), kind: 'logs' }),
    async reopen() {
      await engine.close()
      engine = await open()
    },
    /** How many rows a table of the first day has. */
    async rowsIn(table: string) {
      await engine.close()
      const days = await DuckDbDays.open(folder, onBroken)
      const connection = await days.connect()
      const [[rows]] = (
        await connection.runAndReadAll(`select count(*)::integer from "${day}".${table}`)
      ).getRowsJS() as [[number]]
      connection.closeSync()
      days.close()
      engine = await open()
      return rows
    },
  }
}

/** Requests of application A, each with a path, a client and a status of its own. */
const flood = (count: number, seed: number) =>
  Array.from({ length: count }, (_, n) =>
    logged({
      at: from + ((to - from) * n) / count,
      path: `/${seed}/${n}`,
      client: `81.${seed}.${n >> 8}.${n & 255}`,
      status: [200, 301, 404, 500][n % 4]!,
    }),
  )

test('past its share of a day requests of an application are counted by time and status, and every total stays true', async t => {
  const { take, sameTotals, reopen, rowsIn, analytics, logs, engine } = await scene(t, {
    shares: { ofApp: { requests: 1000 } },
  })
  await take([...flood(1000, 1), ...generatedRequests(500, from, to).map(request => ({ ...request, app: appB }))])
  t.is(await rowsIn('rest'), 0)
  for (const seed of [2, 3, 4, 5]) {
    await take([
      ...flood(1000, seed),
      ...generatedRequests(100, from, to, seed).map(request => ({ ...request, app: appB })),
    ])
    if (seed === 3) await reopen()
  }
  await sameTotals('with all')
  t.is(await rowsIn('requests'), 1000 + 500 + 400, 'another application has each of its requests')
  const quarters = 4
  t.is(await rowsIn('rest'), quarters * 4, 'numbers do not grow with requests')
  while (await engine().rollUp());
  await sameTotals('with sums')

  const answer = await analytics(appA)
  const requestsOf = (name: 'paths' | 'countries' | 'methods' | 'referers', type: string) =>
    answer[name].filter(entry => entry.type === type).reduce((sum, { requests }) => sum + requests, 0)
  t.is(requestsOf('paths', 'Other'), 4000)
  t.is(requestsOf('methods', 'Other'), 4000)
  t.is(requestsOf('countries', 'XX'), 4000)
  t.is(requestsOf('referers', 'Unknown'), 4000)
  for (const name of breakdownNames.filter(of => !['paths', 'ips', 'bots'].includes(of)))
    t.is(
      answer[name].reduce((sum, { requests }) => sum + requests, 0),
      5000,
      name,
    )
  t.deepEqual((await analytics(appA, { path: '/2/' })).visits, [], 'a filter finds what is stored')
  t.false((await logs(appA)).some(({ path }) => path.startsWith('/2/')))
})

test('the next day an application has its share again', async t => {
  const { take, analytics } = await scene(t, { shares: { ofApp: { requests: 10 } } })
  await take(flood(10, 1))
  const late = flood(1, 2).map(request => ({ ...request, at: request.at + 86_400 }))
  await take(flood(1, 3))
  await take(late, tomorrow)
  const paths = (await analytics(appA)).paths.map(({ type }) => type)
  t.true(paths.includes('/2/0'))
  t.false(paths.includes('/3/0'))
})

test('all applications of an account have a share together, of requests and of texts, and another account has its own', async t => {
  const others = Array.from({ length: 4 }, (_, n) => String(n).repeat(24))
  const deleted = new Set<string>()
  const accountOf = (app: string) => (deleted.has(app) ? undefined : app === appB ? 'other' : 'flooding')
  const of = (app: string, seed: number, count = 300) => flood(count, seed).map(request => ({ ...request, app }))
  const requests = await scene(t, { accountOf, shares: { ofApp: { requests: 1000 }, ofAccount: { requests: 1000 } } })
  for (const [n, app] of others.entries()) await requests.take([...of(app, n), ...of(appB, n, 10)])
  for (const app of others) deleted.add(app)
  await requests.reopen()
  await requests.take([...of(appA, 9), ...of(appB, 9, 10)])
  t.is(await requests.rowsIn('requests'), 4 * 300 + 5 * 10, 'that of the first slice past it is the last')
  await requests.sameTotals('of an account')
  deleted.clear()
  const texts = await scene(t, {
    accountOf,
    shares: { ofApp: { textBytes: 10_000 }, ofAccount: { textBytes: 10_000 } },
  })
  for (const [n, app] of others.entries()) await texts.take([...of(app, n, 500), ...of(appB, n, 10)])
  await texts.take([...of(appA, 9, 10), ...of(appB, 9, 10)])
  t.deepEqual([...new Set((await texts.analytics(appA)).paths.map(({ type }) => type))], ['Other'])
  t.false((await texts.analytics(appB)).paths.some(({ type }) => type === 'Other'))
})

test('a day that is full takes in numbers only, and every total stays true', async t => {
  const { take, sameTotals, rowsIn } = await scene(t, {})
  await take(generatedRequests(400, from, to))
  await take(generatedRequests(400, from, to, 2), day, true)
  t.is(await rowsIn('requests'), 400)
  await take(generatedRequests(400, from, to, 3))
  t.is(await rowsIn('requests'), 800)
  await sameTotals('of a full day')
})
