import type { DuckDBConnection } from '@duckdb/node-api'
import test, { type ExecutionContext } from 'ava'
import { openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { DuckDbDays } from '../../../activities/analytics/duckdb-days.ts'
import { DuckDbRollups, summedSources } from '../../../activities/analytics/duckdb-rollups.ts'
import { Statements } from '../../../activities/analytics/duckdb-source.ts'
import { breakdownNames, bucketMs } from '../../../policy/network/analytics-terms.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, appB, generatedRequests, type LoggedRequest, linesOf, logged } from '../../kit/analytics/log-lines.ts'
import { RecountedAnalytics } from '../../kit/fakes/recounted-analytics.ts'
import { ownFolder } from '../../kit/folders.ts'

const day = '2026-11-26'
const from = Date.parse(`${day}T10:00:00Z`)
const to = from + 4 * bucketMs
const sizes = { rows: 1000, restRows: 300, appRows: 100, rowsPerSum: 4 }

/** An engine and a plain recount that take in the same lines, and are asked the same. */
async function scene(t: ExecutionContext, { rowsPerSum = sizes.rowsPerSum, textBytes = 1e9 } = {}) {
  const folder = ownFolder(t)
  const addresses = await testAddresses()
  const recount = new RecountedAnalytics(addresses)
  const onBroken = (_day: string, error: unknown) => t.fail(String(error))
  const open = () =>
    openDuckDb({ folder, addresses, onBroken, shares: { ofApp: { textBytes } }, rollups: { ...sizes, rowsPerSum } })
  let engine = await open()
  t.teardown(() => engine.close())
  const ask = (of: Pick<RecountedAnalytics, 'ask'>, window: { from: number; to: number }, appId = appA) =>
    of.ask({ kind: 'analytics', appId, ownerId: '1', window, filters: {} })
  return {
    async take(requests: readonly LoggedRequest[], of = day) {
      const lines = linesOf(requests)
      for (const taker of [engine, recount]) await taker.take({ day: of, file: 'f', head: 'h', end: 1, lines })
    },
    rollUp: () => engine.rollUp(),
    remove: (of: string) => engine.remove(of),
    ask: (window = { from, to }, appId = appA) => ask(engine, window, appId),
    async same(what: string, window = { from, to }) {
      for (const app of [appA, appB])
        t.deepEqual(await ask(engine, window, app), await ask(recount, window, app), `${what}, ${app[0]}`)
    },
    /** Does something to the files, which no engine has open meanwhile. */
    async between<T>(work: (connection: DuckDBConnection, days: DuckDbDays) => Promise<T>): Promise<T> {
      await engine.close()
      const days = await DuckDbDays.open(folder, onBroken)
      const connection = await days.connect()
      try {
        return await work(connection, days)
      } finally {
        connection.closeSync()
        days.close()
        engine = await open()
      }
    },
  }
}

const rowsOf = async (connection: DuckDBConnection, sql: string) => (await connection.runAndReadAll(sql)).getRowsJS()
const countOf = async (connection: DuckDBConnection, table: string) =>
  Number((await rowsOf(connection, `select count(*) from "${day}".${table}`))[0]![0])

test('summed requests are not read again, and only the partial first and last bucket of a window are read from rows', async t => {
  const { take, rollUp, same, ask, between } = await scene(t, { rowsPerSum: 1 })
  await take(generatedRequests(2000, from, to))
  t.true(await rollUp())
  t.true(await rollUp())
  t.false(await rollUp())
  await same('all')
  const whole = await ask()
  const windows = [
    { from: from + 1, to },
    { from, to: to - 1 },
    { from: from + bucketMs - 1, to: to - bucketMs + 1 },
    { from: from + 1, to: from + bucketMs + 1 },
    { from: from + 1000, to: from + 2000 },
    { from: from - 1000, to: from + bucketMs },
    { from: from + bucketMs, to: from + bucketMs + 1 },
  ]
  for (const window of windows) await same(JSON.stringify(window), window)
  // Without its rows the day still has all whole buckets, and nothing else.
  await between(connection => connection.run(`delete from "${day}".requests`))
  t.deepEqual(await ask(), whole)
  const { visits } = await ask({ from: from + 1, to: to - 1 })
  t.deepEqual(
    visits,
    whole.visits.filter(({ date }) => Date.parse(date) > from && Date.parse(date) < to - bucketMs),
  )
})

test('a day that is over is summed to its end, today only in large runs, and lines that come late count once', async t => {
  const { take, rollUp, same } = await scene(t)
  const tomorrow = '2026-11-27'
  await take(generatedRequests(sizes.rows - 1, from, to))
  t.false(await rollUp())
  await take([logged({ at: from }), logged({ at: from + 1 })])
  t.true(await rollUp())
  t.false(await rollUp(), 'one row is left')
  await take(generatedRequests(sizes.restRows, from, to, 9))
  t.false(await rollUp())
  await take([logged({ at: Date.parse(`${tomorrow}T00:00:00Z`) })], tomorrow)
  t.true(await rollUp())
  t.false(await rollUp())
  await take(generatedRequests(sizes.restRows - 1, from, to, 10))
  t.false(await rollUp())
  await same('with a rest', { from, to: from + 86_400_000 })
})

test('a kill at any moment leaves either all sums of a run or none of them', async t => {
  const { take, same, between, rollUp } = await scene(t)
  await take(generatedRequests(1500, from, to))
  let isWhole = false
  for (let kept = 0; !isWhole; kept++) {
    isWhole = await between(async (connection, days) => {
      let left = kept
      const dying = {
        run: (sql: string) => (left-- > 0 ? connection.run(sql) : Promise.reject(new Error('killed'))),
        runAndReadAll: (sql: string) => connection.runAndReadAll(sql),
      } as DuckDBConnection
      const rolled = await new DuckDbRollups(days, dying, sizes).next().catch((error: Error) => {
        t.is(error.message, 'killed')
        return false
      })
      return rolled
    })
    const runs = await between(connection => countOf(connection, 'rollups'))
    t.is(runs, isWhole ? 1 : 0, `after ${kept} statements`)
    await same(`after ${kept} statements`)
    if (kept > 20) return t.fail('it never ends')
  }
  t.false(await rollUp(), 'fewer are left than are summed at once')
})

test('a day that cannot be summed is tried again less and less often, and keeps no other from being summed', async t => {
  const later = '2026-11-27'
  for (const table of ['sums', 'rollups']) {
    const { take, between } = await scene(t)
    await take(generatedRequests(400, from, to))
    await take(generatedRequests(1000, from, to), later)
    await between(async (connection, days) => {
      let now = 0
      const rollups = new DuckDbRollups(days, connection, sizes, () => now)
      await connection.run(`alter table "${day}".${table} rename to away`)
      const outcomes: string[] = []
      for (let second = 0; second <= 200; second += 1) {
        now = second * 1000
        const outcome = await rollups.next().catch(() => 'failed')
        if (outcome !== false) outcomes.push(`${second} ${outcome}`)
      }
      const fails = [2, 6, 14, 30, 62, 122, 182].map(second => `${second} failed`)
      t.deepEqual(outcomes, ['0 failed', '1 true', ...fails], table)
      await connection.run(`alter table "${day}".away rename to ${table}`)
      now = 242_000
      t.true(await rollups.next(), table)
      t.is(await countOf(connection, 'rollups'), 1, table)
    })
  }
})

test('a file of an older version gets its sums in bounded steps, and is answered from rows meanwhile', async t => {
  const { take, rollUp, same, between } = await scene(t)
  await take(generatedRequests(3500, from, to))
  await between(async connection => {
    for (const table of ['rollups', 'rolled', 'sums']) await connection.run(`drop table "${day}".${table}`)
  })
  await same('before')
  for (const step of [1, 2, 3]) {
    t.true(await rollUp())
    await same(`step ${step}`)
  }
  t.false(await rollUp())
  const runs = await between(connection => rowsOf(connection, `select first, after from "${day}".rollups order by all`))
  t.deepEqual(
    runs.map(run => run.map(Number)),
    [
      [0, 1000],
      [1000, 2000],
      [2000, 3000],
    ],
  )
})

test('a flood of made-up paths and addresses has no more sums than a part of its rows, and the rest of the application has its own', async t => {
  const { take, rollUp, same, between } = await scene(t)
  const requests = generatedRequests(5000, from, to)
  const isFlood = (n: number) => n >= 2000 && n < 3000
  const made = requests.map((request, n) =>
    isFlood(n)
      ? { ...request, path: `/${n}`, client: `9.9.${n >> 8}.${n & 255}`, referer: `https://${n}.example/` }
      : request,
  )
  // A slice for each run: the engine shuffles the lines of one.
  for (let n = 0; n < made.length; n += sizes.rows) await take(made.slice(n, n + sizes.rows))
  while (await rollUp()) await same('between')
  await same('all')
  await same('inside', { from: from + 123_456, to: to - 123_456 })
  const [sums, ranges] = await between(async connection => [
    await countOf(connection, `sums where first = 2000`),
    await rowsOf(connection, `select breakdown, first from "${day}".rolled where app = '${appA}' order by first`),
  ])
  t.true(sums > 0 && sums <= (1000 / sizes.rowsPerSum) * breakdownNames.length, `${sums} sums`)
  const starts = (name: string) => ranges.filter(([breakdown]) => breakdown === name).map(([, first]) => Number(first))
  t.deepEqual(starts('paths'), [0, 1000, 3000, 4000])
  t.deepEqual(starts('visits'), [0, 1000, 2000, 3000, 4000])
})

test('an application with few requests among those of others has no sums', async t => {
  const { take, rollUp, same, between } = await scene(t)
  const requests = generatedRequests(1000, from, to)
  await take(requests.map((request, n) => ({ ...request, app: n < sizes.appRows - 1 ? appB : appA })))
  t.true(await rollUp())
  await same('both')
  const apps = await between(connection => rowsOf(connection, `select distinct app from "${day}".rolled`))
  t.deepEqual(apps, [[appA]])
})

test('paths that sums store count in the application’s share of texts', async t => {
  const { take, rollUp, ask } = await scene(t, { textBytes: 10_000 })
  const long = Array.from({ length: 25 }, (_, n) => `/${n}${'x'.repeat(300)}`)
  await take(Array.from({ length: sizes.rows }, (_, n) => logged({ at: from, path: long[n % 25]! })))
  await take([logged({ at: from + 1, path: '/before' })])
  t.true(await rollUp())
  await take([logged({ at: from + 2, path: '/after' })])
  const { paths } = await ask({ from: from + 1, to: from + 3 })
  t.deepEqual(
    paths.map(({ type }) => type),
    ['/before', 'Other'],
  )
})

test('requests that are summed while a question is being answered neither are missing in it nor count twice', async t => {
  const { take, between } = await scene(t)
  await take(generatedRequests(2000, from, to))
  await between(async (connection, days) => {
    const rollups = new DuckDbRollups(days, connection, sizes)
    const statements = new Statements(connection, new AbortController().signal)
    const total = async (sources: Awaited<ReturnType<typeof summedSources>>) => {
      const { sql, values } = sources('visits')
      return Number((await statements.rows(`select sum(n)::double from ${sql}`, values))[0]![0])
    }
    const about = { appId: appA, window: { from, to } }
    const asked = () => summedSources(about, days.catalogsOf(about.window), statements)
    const before = await asked()
    const all = await total(before)
    t.true(await rollups.next())
    const within = await asked()
    t.is(await total(before), all)
    t.true(await rollups.next())
    for (const sources of [before, within, await asked()]) t.is(await total(sources), all)
  })
})

test('the sums of a day go with it', async t => {
  const { take, rollUp, remove, ask, between } = await scene(t)
  const requests = generatedRequests(1000, from, to)
  await take(requests)
  t.true(await rollUp())
  await remove(day)
  t.deepEqual((await ask()).visits, [])
  await take(requests)
  t.true(await rollUp(), 'its rows have their numbers anew')
  const sum = (await ask()).visits.reduce((all, { requests }) => all + requests, 0)
  t.is(sum, requests.filter(({ app }) => app === appA).length)
  const [run] = await between(connection => rowsOf(connection, `select first, after from "${day}".rollups`))
  t.deepEqual(run!.map(Number), [0, 1000])
})

test('a line with absurd figures is summed like any other', async t => {
  const { take, rollUp, ask, between } = await scene(t)
  const absurd = { bytes: 2 ** 63 }
  await take(Array.from({ length: sizes.rows }, (_, n) => logged({ at: n < 500 ? from : 8e15, ...absurd })))
  t.true(await rollUp())
  const before = await ask()
  t.is(before.visits[0]!.bytes, 500 * 2 ** 63)
  await between(connection => connection.run(`delete from "${day}".requests`))
  t.deepEqual(await ask(), before)
})
