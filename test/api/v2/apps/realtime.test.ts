import { randomBytes } from 'node:crypto'
import test from 'ava'
import { LiveFeeds } from '../../../../api/hosts/live-feeds.ts'
import { NetworkRates } from '../../../../api/hosts/network-rates.ts'
import type { AppRow } from '../../../../db/apps/apps.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { EventReader } from '../../../kit/actors/event-stream.ts'
import { ScriptedLive } from '../../../kit/fakes/scripted-live.ts'

const api = testApi()

async function liveApp(user: TestUser): Promise<{ app: AppRow; host: ScriptedLive }> {
  const app = await api().makeApp(user, { memoryMb: 512 })
  const host = new ScriptedLive()
  api().hosts.streams.set(app.id, host)
  return { app, host }
}

const open = (app: AppRow, credential: string, base = api().url, headers?: Record<string, string>) =>
  new EventReader(`${base}/v2/apps/${app.id}/realtime`, credential, headers)

const started = (reader: EventReader) => reader.until(({ frames }) => frames.length >= 3)

test('the frames are those of the contract', async t => {
  const ana = await api().makeUser()
  const { app, host } = await liveApp(ana)
  const reader = open(app, ana.key, undefined, { accept: '*/*' })
  const response = await reader.started
  t.is(response.statusCode, 200)
  t.like(response.headers, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  })
  await started(reader)
  const [connecting, connected, status] = reader.frames
  t.regex(connecting!.data, /^REALTIME_CONNECTING \| [0-9a-f]{32}$/)
  t.deepEqual(
    [connecting!.event, connected],
    ['system', { event: 'system', id: undefined, data: 'REALTIME_CONNECTED' }],
  )
  const { uptime, ...first } = JSON.parse(status!.data)
  t.deepEqual(first, {
    cpu: 12.35,
    cpuLimit: app.cpu,
    ram: [121, 512],
    status: 'running',
    netIO: { i: 1000, o: 2000, new: { i: 0, o: 0 } },
    bIO: { i: 3, o: 4 },
  })
  t.true(Number.isInteger(uptime) && uptime > 0)

  await new Promise(resolve => setTimeout(resolve, 1000))
  const { stats } = host.reading
  host.emit({ reading: { ...host.reading, stats: { ...stats!, networkIn: 1_001_000 } } })
  host.emit(
    { stream: 'stdout', line: 'olá: {"a": 1}' },
    { stream: 'stderr', line: '' },
    { stream: 'stdout', line: 'a\rb' },
  )
  await reader.until(() => reader.of('logs').length === 3)
  t.deepEqual(reader.of('logs'), ['\u0001olá: {"a": 1}', '\u0002', '\u0001a\nb'])
  const [, later] = reader.of('status').map(text => JSON.parse(text))
  t.deepEqual(Object.keys(later), ['cpu', 'ram', 'netIO', 'bIO'])
  t.true(later.netIO.new.i > 500_000 && later.netIO.new.i <= 1_000_000, JSON.stringify(later))
  t.true(reader.text.includes('event: logs\ndata: \u0001olá: {"a": 1}\n\nevent: logs\ndata: \u0002\n\n'))
  reader.leave()
})

test('a single connection to the host serves all listeners, and ends with the last of them', async t => {
  const ana = await api().makeUser()
  const { app, host } = await liveApp(ana)
  const readers = Array.from({ length: 20 }, () => open(app, ana.key))
  for (const reader of readers) await started(reader)
  t.is(host.opened, 1)
  host.print('hello')
  for (const reader of readers) await reader.until(() => reader.of('logs').length === 1)
  for (const reader of readers) t.true('cpuLimit' in JSON.parse(reader.of('status')[0]!))
  t.is(new Set(readers.map(reader => reader.frames[0]!.data)).size, 20)
  for (const reader of readers.slice(1)) reader.leave()
  host.print('and you')
  await readers[0]!.until(reader => reader.of('logs').length === 2)
  readers[0]!.leave()
  await emptied(() => host.readers === 0)
  const again = open(app, ana.key)
  await started(again)
  t.is(host.opened, 2)
  again.leave()
  await emptied(async () => (await places(app)) === 0)
  t.pass()
})

test('a broken connection to the host is reopened; an application without container ends the stream', async t => {
  const ana = await api().makeUser()
  const { app, host } = await liveApp(ana)
  const reader = open(app, ana.key)
  await started(reader)
  host.hangUp()
  await emptied(() => host.opened === 2)
  host.print('back again')
  await reader.until(() => reader.of('logs').length === 1)
  t.false(reader.over)
  host.remove()
  t.deepEqual((await reader.ended).at(-1), { event: 'error', id: undefined, data: 'CONTAINER_NOT_FOUND' })
  t.deepEqual(reader.of('system').slice(1), ['REALTIME_CONNECTED'])
  await emptied(async () => (await places(app)) === 0)
})

test('a host that does not answer is 503, one that falls silent ends its streams after 15 s', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const answer = await api().as(ana).get(`/v2/apps/${app.id}/realtime`)
  t.deepEqual([answer.status, answer.body.code], [503, 'CLUSTER_UNAVAILABLE'])
  t.truthy(answer.headers.get('retry-after'))
  t.is(await places(app), 0)
  api().hosts.silent.set(app.id, 'CLUSTER_TIMEOUT')
  t.like(await api().as(ana).get(`/v2/apps/${app.id}/realtime`), { status: 504, body: { code: 'CLUSTER_TIMEOUT' } })
  t.is(await places(app), 0)

  const { app: other } = await liveApp(ana)
  const reader = open(other, ana.key)
  await started(reader)
  const at = performance.now()
  await reader.ended
  t.deepEqual(reader.of('system').slice(-1), ['REALTIME_ERROR'])
  t.true(performance.now() - at > 14_000)
})

test('a stream continues while figures arrive, with a heartbeat every 15 s', async t => {
  t.timeout(40_000)
  const ana = await api().makeUser()
  const { app, host } = await liveApp(ana)
  const reader = open(app, ana.key)
  await started(reader)
  const figures = setInterval(() => host.emit({ reading: host.reading }), 500)
  t.teardown(() => clearInterval(figures))
  await new Promise(resolve => setTimeout(resolve, 10_000))
  t.false(reader.text.includes(': ping'))
  await reader.until(({ text }) => text.includes(': ping\n\nevent: system\ndata: PING\n\n'))
  t.deepEqual(reader.of('system').slice(2), ['PING'])
  reader.leave()
})

test('a listener that joins an ended feed gets its end too', async t => {
  const ana = await api().makeUser()
  const { app, host } = await liveApp(ana)
  const feeds = new LiveFeeds(async (_, signal) => host.open(signal), new NetworkRates())
  const feed = feeds.of(app)
  await feed.join()
  t.is(feeds.of(app), feed)
  const ends: string[] = []
  feed.listen(app, { take: () => {}, end: why => ends.push(why) })
  host.remove()
  await emptied(() => ends.length === 1)
  feed.listen(app, { take: () => {}, end: why => ends.push(why) })
  await emptied(() => ends.length === 2)
  t.deepEqual(ends, ['CONTAINER_NOT_FOUND', 'CONTAINER_NOT_FOUND'])
  feed.leave()
  t.not(feeds.of(app), feed)
})

test('a stalled reader is disconnected, and the others get every line', async t => {
  t.timeout(60_000)
  const ana = await api().makeUser()
  const { app, host } = await liveApp(ana)
  const [slow, quick] = [open(app, ana.key), open(app, ana.key)]
  await Promise.all([started(slow), started(quick)])
  ;(await slow.started).pause()
  const line = randomBytes(16_000).toString('hex')
  let printed = 0
  for (; (await places(app)) === 2 && printed < 2000; await new Promise(setImmediate))
    host.print(`${++printed} ${line}`)
  t.is(await places(app), 1)
  await quick.until(() => quick.of('logs').length === printed)
  t.true(quick.of('logs').every((text, n) => Number.parseInt(text.slice(1), 10) === n + 1))
  quick.leave()
})

async function places(app: AppRow): Promise<number> {
  const found = await api().db('realtime_listeners').where({ app_id: app.id }).count()
  return Number(found[0]!.count)
}

async function emptied(what: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 30_000; !(await what()); await new Promise(resolve => setTimeout(resolve, 10)))
    if (Date.now() > end) throw new Error('not within 30 s')
}
