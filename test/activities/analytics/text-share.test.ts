import test, { type ExecutionContext } from 'ava'
import { openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, appB, type LoggedRequest, linesOf, logged } from '../../kit/analytics/log-lines.ts'
import { ownFolder } from '../../kit/folders.ts'

const days = ['2026-11-26', '2026-11-27'] as const
const noonOf = (day: string) => Date.parse(`${day}T12:00:00Z`)

/** An engine on a folder of its own, and what it says of an application at noon of a day. */
async function scene(t: ExecutionContext, ofApp: { textBytes?: number }) {
  const folder = ownFolder(t)
  const addresses = await testAddresses()
  const open = () => openDuckDb({ folder, addresses, shares: { ofApp }, onBroken: (_, error) => t.fail(String(error)) })
  let engine = await open()
  t.teardown(() => engine.close())
  const take = (day: string, requests: readonly Partial<LoggedRequest>[]) =>
    engine.take({
      ...{ day, file: 'f', head: 'h', end: 1 },
      lines: linesOf(requests.map(request => logged({ ...request, at: noonOf(day) }))),
    })
  const about = (appId: string, day: string) => {
    const from = noonOf(day)
    return { appId, ownerId: '1', window: { from, to: from + 1 } }
  }
  const seen = async (appId: string, day: string = days[0]) => {
    const answer = await engine.ask({ ...about(appId, day), kind: 'analytics', filters: {} })
    const { visits, requests, bytes } = answer.visits[0]!
    const types = (name: 'paths' | 'referers' | 'content_types') =>
      Object.fromEntries(answer[name].map(entry => [entry.type, entry.requests]))
    return {
      visits,
      requests,
      bytes,
      paths: types('paths'),
      referers: types('referers'),
      contents: types('content_types'),
    }
  }
  return {
    ...{ take, seen },
    logs: (appId: string) => engine.ask({ ...about(appId, days[0]), kind: 'logs' }),
    async reopen() {
      await engine.close()
      engine = await open()
    },
  }
}

test('past its share of texts in a day an application has counts without texts, and every other has its own', async t => {
  const { take, seen, reopen, logs } = await scene(t, { textBytes: 10_000 })
  const flood = Array.from({ length: 20 }, (_, n) => ({ path: `/${n}${'x'.repeat(600)}` }))
  const usual = Array.from({ length: 400 }, () => ({ path: '/usual', query: 'q=1', referer: 'https://news.example/' }))
  await take(days[0], [...flood, ...usual.map(request => ({ ...request, app: appB }))])
  t.is(Object.keys((await seen(appA)).paths).length, 20)

  const rest = [
    { path: '/secret', query: 'q=1', referer: 'https://news.example/x' },
    { path: '/inner', referer: 'https://a.apps.localhost/' },
    { path: '/direct' },
  ]
  await reopen()
  await take(days[0], [...rest, ...usual.map(request => ({ ...request, app: appB }))])
  const all = await seen(appA)
  t.deepEqual(
    { visits: all.visits, requests: all.requests, bytes: all.bytes, other: all.paths.Other },
    { visits: 22, requests: 23, bytes: 23_000, other: 3 },
    'from the same host is no visit, as before',
  )
  t.deepEqual(all.referers, { Direct: 21, Unknown: 2 })
  const lines = await logs(appA)
  t.deepEqual(
    lines.filter(({ path }) => path === 'Other').map(({ query, referer, status }) => [query, referer, status]),
    Array.from({ length: 3 }, () => [null, null, 200]),
  )
  t.deepEqual((await seen(appB)).paths, { '/usual': 800 }, 'texts that come again take no space')
  t.deepEqual((await seen(appB)).referers, { 'news.example': 800 })

  await take(days[1], rest)
  t.deepEqual((await seen(appA, days[1])).paths, { '/secret': 1, '/inner': 1, '/direct': 1 })
})

test('made-up content types count as texts, and past its share an application has none', async t => {
  const { take, seen } = await scene(t, { textBytes: 2000 })
  const made = Array.from({ length: 40 }, (_, n) => ({ path: '/', content_type: `x/${n}${'y'.repeat(50)}` }))
  await take(days[0], made)
  t.is(Object.keys((await seen(appA)).contents).length, 40)
  await take(days[0], [
    { path: '/', content_type: 'x/more' },
    { path: '/', content_type: 'text/html' },
  ])
  const { contents, visits } = await seen(appA)
  t.deepEqual([Object.keys(contents).length, contents.Unknown, visits], [41, 2, 1], 'what is a visit is decided before')
})

test('made-up methods count as texts, and past its share those of an application are others', async t => {
  const { take, logs } = await scene(t, { textBytes: 100 })
  await take(
    days[0],
    Array.from({ length: 20 }, (_, n) => ({ path: '/', method: `MADE${n}` })),
  )
  const methods = async () => (await logs(appA)).map(({ method }) => method)
  t.is((await methods()).includes('Other'), false, 'lines of the log show what was sent')
  await take(
    days[0],
    ['MADEUP', 'get', 'PATCH'].map(method => ({ path: '/', method })),
  )
  t.deepEqual((await methods()).filter(method => !method.startsWith('MADE')).sort(), ['Other', 'Other', 'PATCH'])
})
