import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { DuckDbDays } from '../../../activities/analytics/duckdb-days.ts'
import { dayOf } from '../../../activities/analytics/expired-days.ts'
import { httpAnalytics, sendAccounts } from '../../../api/network/analytics-client.ts'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { analyticsKey } from '../../../policy/keys.ts'
import { Busy, retainedDays } from '../../../policy/network/analytics-terms.ts'
import { appA, draws, generatedRequests, linesOf } from '../../kit/analytics/log-lines.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { type Entry, startEntry } from '../../kit/platform/entry.ts'
import { demandRoot } from '../../kit/root.ts'

const hourMs = 3_600_000

/** A data folder with a log, and the process on it. */
async function scene(t: ExecutionContext) {
  const dataDir = ownFolder(t)
  const logFolder = join(dataDir, 'proxy', 'access')
  mkdirSync(logFolder, { recursive: true })
  const masterKey = randomBytes(32).toString('hex')
  const port = await unusedPort()
  const key = analyticsKey(masterKey)
  const url = `http://127.0.0.1:${port}`
  const env = { BERTH_DATA: dataDir, BERTH_MASTER_KEY: masterKey, ANALYTICS_PORT: String(port) }
  const state = () =>
    fetch(`${url}/state`, { headers: { Authorization: `Bearer ${key}` } }).then(
      answer => answer.json() as Promise<{ behindBytes: number; days: string[] }>,
    )
  const entries: Entry[] = []
  t.teardown(() => Promise.all(entries.map(entry => entry.kill('SIGKILL'))))
  const now = Date.now()
  const hour = Math.floor(now / hourMs) * hourMs
  const log = (at: number) => join(logFolder, `access-${new Date(at).toISOString().slice(0, 13)}.log`)
  return {
    ...{ dataDir, url, key, state, hour, log, env },
    analytics: httpAnalytics(url, key),
    window: { from: hour - 6 * hourMs, to: hour + hourMs },
    start(settings = {}) {
      const entry = startEntry('analytics', { ...env, ...settings })
      entry.ready.catch(() => {}) // a test that kills it does not wait for it
      entries.push(entry)
      return entry
    },
    /** Resolves once the process has taken in everything. */
    caughtUp: () => comesTrue(async () => (await state().catch(() => null))?.behindBytes === 0, 120),
  }
}

test('every line is counted once, however often the process is killed while the log grows', async t => {
  t.timeout(400_000)
  const { dataDir, start, analytics, window, hour, log, caughtUp } = await scene(t)
  const draw = draws(11)
  const requests = generatedRequests(120_000, hour - 3 * hourMs, hour, 3)
  const lines = linesOf(requests)
  writeFileSync(log(hour - 3 * hourMs), lines)
  let written = requests.length
  const [first, ...more] = Array.from({ length: 8 }, () => 50 + Math.floor(draw() * 900))
  const killed = async (afterMs: number) => {
    const entry = start()
    await entry.ready
    await sleep(afterMs)
    await entry.kill('SIGKILL')
  }
  await killed(first!)
  for (const afterMs of more) {
    const added = linesOf(requests.slice(0, 5000))
    // Killed also while a line is half written.
    appendFileSync(log(hour), added.subarray(0, added.length - 40))
    await killed(afterMs)
    appendFileSync(log(hour), added.subarray(added.length - 40))
    written += 5000
  }
  const last = start()
  await last.ready
  await caughtUp()
  const expected = (list: typeof requests) => list.filter(({ app }) => app === appA).length
  t.is(await requestsOf(analytics, window, appA), expected(requests) + 7 * expected(requests.slice(0, 5000)))
  t.is(written, 155_000)
  t.is(await last.kill('SIGTERM').then(() => last.ended), 0, last.output())
  t.true((await runsIn(join(dataDir, 'analytics'))) > 0, 'all of it from rows')
})

/** How many runs of rows have been summed. */
async function runsIn(folder: string): Promise<number> {
  const days = await DuckDbDays.open(folder, (_day, error) => {
    throw error
  })
  const connection = await days.connect()
  try {
    const tables = days.list().map(day => `select * from "${day}".rollups`)
    return (await connection.runAndReadAll(tables.join(' union all '))).currentRowCount
  } finally {
    connection.closeSync()
    days.close()
  }
}

async function requestsOf(
  analytics: ReturnType<typeof httpAnalytics>,
  window: { from: number; to: number },
  appId: string,
): Promise<number> {
  const { visits } = await analytics.ask({ kind: 'analytics', appId, ownerId: '1', window, filters: {} })
  return visits.reduce((sum, { requests }) => sum + requests, 0)
}

test('applications of an account have a share of a day together, once the process knows whose they are', async t => {
  const { start, analytics, window, hour, log, url, key } = await scene(t)
  const requests = generatedRequests(30_010, hour - 3 * hourMs, hour, 7)
  const apps = ['c', 'd', 'e'].map(letter => letter.repeat(24))
  const account = (app: string) => [app, app === apps[2] ? 'other' : 'flooding'] as const
  // Room for 20,480 requests of an application, 40,960 of an account.
  await start({ ANALYTICS_MB: '20' }).ready
  await sendAccounts(url, key, apps.map(account))
  const others = async (app: string) => {
    const { paths } = await analytics.ask({ kind: 'analytics', appId: app, ownerId: '1', window, filters: {} })
    return paths.some(({ type }) => type === 'Other')
  }
  const counted = async (app: string, from: number, to: number) => {
    const before = await requestsOf(analytics, window, app)
    appendFileSync(
      log(hour - 3 * hourMs),
      linesOf(requests.slice(from, to).map(request => ({ ...request, app, path: '/' }))),
    )
    await comesTrue(async () => (await requestsOf(analytics, window, app)) === before + to - from, 60)
  }
  for (const app of apps) await counted(app, 0, 20_470)
  await counted(apps[0]!, 20_470, 20_480)
  await counted(apps[2]!, 20_470, 20_475)
  t.deepEqual(await Promise.all(apps.map(others)), [false, false, false])
  await counted(apps[1]!, 20_470, 20_480)
  for (const app of apps) await counted(app, 30_000, 30_002)
  t.deepEqual(await Promise.all(apps.map(others)), [true, true, false])
  await t.throwsAsync(sendAccounts(url, 'wrong', []), { message: /401/ })
  await t.throwsAsync(sendAccounts(url, key, [['f'.repeat(17_000_000), 'one']]), { message: /413/ })
})

test('only the API is answered, and a process that is away is busy', async t => {
  const { start, analytics, window, url, key } = await scene(t)
  const question = { kind: 'logs', appId: appA, ownerId: '1', window } as const
  await t.throwsAsync(analytics.ask(question), { instanceOf: Busy })
  const entry = start()
  await entry.ready
  t.deepEqual(await analytics.ask(question), [])
  const ask = async (headers: Record<string, string>, body = '{}') =>
    (await fetch(`${url}/ask`, { method: 'POST', headers, body })).status
  t.is(await ask({}), 401)
  t.is(await ask({ Authorization: `Bearer ${key.slice(1)}0` }), 401)
  t.is(await ask({ Authorization: `Bearer ${key}` }, 'x'.repeat(70_000)), 413)
  t.is(await ask({ Authorization: `Bearer ${key}` }, 'no json'), 500)
  await t.throwsAsync(httpAnalytics(url, 'wrong').ask(question), { message: /401/ })
  t.is((await fetch(`${url}/other`, { headers: { Authorization: `Bearer ${key}` } })).status, 404)
})

test('while its disk is full nothing is lost or counted twice', async t => {
  demandRoot()
  t.timeout(300_000)
  const { dataDir, start, analytics, window, hour, log, caughtUp } = await scene(t)
  const folder = join(dataDir, 'analytics')
  mkdirSync(folder)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'tmpfs', folder])
  t.teardown(() => execFileSync('umount', ['--lazy', folder]))
  const requests = generatedRequests(120_000, hour - 3 * hourMs, hour, 5)
  const lines = linesOf(requests)
  writeFileSync(log(hour - 3 * hourMs), lines)
  let entry = start()
  await comesTrue(() => /were not taken in/.test(entry.output()), 120)
  // It goes on, or ends for the supervisor to start it again: both are right.
  await Promise.race([entry.ended, sleep(3000)])
  execFileSync('mount', ['-o', 'remount,size=512m', folder])
  if (entry.child.exitCode !== null) entry = start()
  const expected = requests.filter(({ app }) => app === appA).length
  await comesTrue(async () => (await requestsOf(analytics, window, appA).catch(() => 0)) >= expected, 200)
  await caughtUp()
  t.is(await requestsOf(analytics, window, appA), expected)
})

test('where nothing is counted, what was counted goes when it is too old', async t => {
  const { dataDir, start, analytics, window } = await scene(t)
  const folder = join(dataDir, 'analytics')
  mkdirSync(folder)
  const [old, today] = [0, 1].map(n => `${dayOf(Date.now() - (1 - n) * retainedDays * 24 * hourMs)}.duckdb`)
  for (const name of [old, today]) writeFileSync(join(folder, name!), '')
  await start({ ANALYTICS: 'off' }).ready
  await comesTrue(() => !readdirSync(folder).includes(old!))
  t.deepEqual(readdirSync(folder), [today])
  await t.throwsAsync(analytics.ask({ kind: 'logs', appId: appA, ownerId: '1', window }), { instanceOf: Busy })
})
