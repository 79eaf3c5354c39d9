import test, { type ExecutionContext } from 'ava'
import { type DuckDb, openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { DuckDbDays } from '../../../activities/analytics/duckdb-days.ts'
import { Busy } from '../../../policy/network/analytics-terms.ts'
import { analyticsContract } from '../../contracts/analytics.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, generatedRequests, linesOf, logged } from '../../kit/analytics/log-lines.ts'
import { RecountedAnalytics } from '../../kit/fakes/recounted-analytics.ts'
import { ownFolder } from '../../kit/folders.ts'

async function openEngine(t: ExecutionContext): Promise<DuckDb> {
  const engine = await openDuckDb({
    folder: ownFolder(t),
    addresses: await testAddresses(),
    onBroken: (_day, error) => t.fail(String(error)),
  })
  t.teardown(() => engine.close())
  return engine
}

analyticsContract(test, 'the recount', async () => new RecountedAnalytics(await testAddresses()))
analyticsContract(test, 'DuckDB', openEngine)

test('a line counts once, whatever its agent and referer are', async t => {
  const engine = await openEngine(t)
  const at = Date.parse('2026-11-26T12:00:00Z')
  const odd = [
    '\ufeffMozilla/5.0',
    '\ufeff',
    '\ufeff\ufeffx',
    '',
    ' ',
    '\u0000',
    '\u2028',
    '"',
    '\\',
    'é',
    '\ud83d\ude00',
  ]
  const requests = odd.flatMap(agent => [logged({ at, agent }), logged({ at, agent, referer: agent })])
  t.is(
    await engine.take({ day: '2026-11-26', file: 'f', head: 'h', end: 1, lines: linesOf(requests) }),
    requests.length,
  )
})

test('a question that is given up is interrupted, and the engine answers the next one', async t => {
  const engine = await openEngine(t)
  const from = Date.parse('2026-11-26T00:00:00Z')
  const window = { from, to: from + 3_600_000 }
  const requests = generatedRequests(100_000, window.from, window.to)
  await engine.take({ day: '2026-11-26', file: 'f', head: 'h', end: 1, lines: linesOf(requests) })
  const question = {
    kind: 'analytics',
    appId: appA,
    ownerId: '1',
    window,
    filters: {},
  } as const
  await t.throwsAsync(engine.ask(question, AbortSignal.abort()), { instanceOf: Busy })
  const soon = new AbortController()
  const asked = engine.ask(question, soon.signal)
  setTimeout(() => soon.abort(), 20)
  await t.throwsAsync(asked, { instanceOf: Busy })
  const { visits } = await engine.ask(question)
  t.is(visits.length, 4)
})

test('no question reads or writes a file, or changes a setting of the engine', async t => {
  const days = await DuckDbDays.open(ownFolder(t), (_day, error) => t.fail(String(error)))
  const connection = await days.connect()
  t.teardown(() => {
    connection.closeSync()
    days.close()
  })
  for (const sql of [
    "select * from read_text('/etc/passwd')",
    "copy (select 1) to '/tmp/berth-analytics-copy.csv'",
    "attach '/tmp/berth-analytics-other.duckdb' as other",
    'set enable_external_access = true',
    "set memory_limit = '8GB'",
    "set allowed_directories = ['/']",
    "install httpfs from 'http://127.0.0.1:1/'",
  ])
    await t.throwsAsync(connection.run(sql), { message: /Permission Error|locked|Cannot|disabled/i }, sql)
})

test('a slice whose progress cannot be stored leaves no rows and no agents behind', async t => {
  const engine = await openEngine(t)
  const from = Date.parse('2026-11-26T00:00:00Z')
  const slice = { day: '2026-11-26', file: 'f', head: 'h', lines: linesOf([logged({ at: from })]) }
  await t.throwsAsync(engine.take({ ...slice, end: Number.NaN }))
  t.is((await engine.progressOf(slice.day)).size, 0)
  await engine.take({ ...slice, end: 5 })
  const about = { appId: appA, ownerId: '1', window: { from, to: from + 1000 } }
  const { browsers: names } = await engine.ask({ ...about, kind: 'analytics', filters: {} })
  t.deepEqual(
    names.map(({ type, requests }) => [type, requests]),
    [['Chrome', 1]],
  )
})
