import { randomBytes } from 'node:crypto'
import { type ClientRequest, get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { labels } from '../../../activities/containers/port.ts'
import type { LiveEvent } from '../../../activities/live/live-feed.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { hostLive } from '../../../api/hosts/live-events.ts'
import { serveHost } from '../../../workers/host/server/host-server.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { log } from '../../kit/platform/platform.ts'

async function hostWith(t: ExecutionContext) {
  const engine = new FakeContainerHost({ '-': { prints: 'before\n' } })
  engine.networks.add('n')
  const volumes = { usedBytes: async () => 0 } as never
  const own = { db: null as never, engine, volumes, hostId: 'h', locks: appLocks() }
  const options = { ...own, key: 'k', address: '127.0.0.1', port: 0, log }
  const { url, server } = await serveHost(options)
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const appId = randomBytes(12).toString('hex')
  return {
    engine,
    url,
    server,
    appId,
    connections: () => new Promise(done => server.getConnections((_, count) => done(count))),
    async container() {
      const own = { [labels.host]: 'h', [labels.app]: appId, [labels.release]: '1', [labels.role]: 'app' }
      await engine.create({ name: appId, labels: own, command: ['-'], network: 'n', memoryMb: 1 } as never)
      await engine.start(appId)
      return appId
    },
    read: () => read(`${url}/apps/${appId}/live`),
  }
}

interface Reader {
  events: LiveEvent[]
  lines(): string[]
  until(what: (events: LiveEvent[]) => boolean): Promise<void>
  ended: Promise<void>
  response: IncomingMessage
  request: ClientRequest
}

async function read(url: string): Promise<Reader> {
  const request = get(url, { agent: false, headers: { authorization: 'Bearer k' } })
  const response = await new Promise<IncomingMessage>((done, failed) =>
    request.on('response', done).on('error', failed),
  )
  const events: LiveEvent[] = []
  let rest = ''
  response.setEncoding('utf8').on('data', chunk => {
    const pieces = (rest + chunk).split('\n')
    rest = pieces.pop()!
    events.push(...pieces.map(piece => JSON.parse(piece)))
  })
  const ended = new Promise<void>(done => response.on('error', () => {}).once('close', done))
  return {
    events,
    lines: () => events.flatMap(event => ('line' in event ? [event.line] : [])),
    async until(what) {
      for (const end = Date.now() + 10_000; !what(events); await sleep(20))
        if (Date.now() > end) throw new Error(`not within 10 s: ${JSON.stringify(events).slice(-2000)}`)
    },
    ended,
    response,
    request,
  }
}

const figures = (events: LiveEvent[]) => events.flatMap(event => ('reading' in event ? [event.reading] : []))

test('thirty readers share one log stream, each gets everything, and it ends with the last of them', async t => {
  const host = await hostWith(t)
  const name = await host.container()
  const readers = await Promise.all(Array.from({ length: 30 }, () => host.read()))
  for (const reader of readers) await reader.until(events => figures(events).length > 0)
  await waitFor(() => host.engine.follows.open === 1)
  host.engine.print(name, 'one\n')
  host.engine.print(name, 'two\n', 'stderr')
  for (const reader of readers) await reader.until(() => reader.lines().length === 2)
  for (const { events } of readers) {
    t.deepEqual(
      events.filter(event => 'line' in event),
      [
        { stream: 'stdout', line: 'one' },
        { stream: 'stderr', line: 'two' },
      ],
      'nothing from before',
    )
    t.like(figures(events)[0], { state: { status: 'running', running: true }, stats: { cpuPercent: 0.5 } })
  }
  t.is(host.engine.follows.opened, 1)
  for (const reader of readers.slice(1)) reader.request.destroy()
  await sleep(100)
  t.is(host.engine.follows.open, 1)
  readers[0]!.request.destroy()
  await waitFor(() => host.engine.follows.open === 0)
  const again = await host.read()
  await again.until(events => figures(events).length > 0)
  t.is(host.engine.follows.opened, 2)
})

test('without a container that is reported immediately; without the key nothing is', async t => {
  const host = await hostWith(t)
  const reader = await host.read()
  await reader.ended
  t.deepEqual(reader.events, [{ error: 'CONTAINER_NOT_FOUND' }])
  t.is((await fetch(`${host.url}/apps/${host.appId}/live`)).status, 401)
})

test('a reader that does not read is cut off, and the others get every line', async t => {
  const host = await hostWith(t)
  const name = await host.container()
  const [slow, quick] = await Promise.all([host.read(), host.read()])
  await quick.until(events => figures(events).length > 0)
  slow.response.pause()
  t.teardown(() => void slow.request.destroy()) // it does not hear of its end
  const line = 'x'.repeat(16_000)
  let printed = 0
  for (const end = Date.now() + 40_000; (await host.connections()) === 2 && Date.now() < end; await sleep(40))
    for (let n = 0; n < 3; n++) host.engine.print(name, `${++printed} ${line}\n`)
  t.is(await host.connections(), 1)
  await quick.until(() => quick.lines().length === printed)
  t.deepEqual(
    quick.lines().map(text => Number.parseInt(text, 10)),
    Array.from({ length: printed }, (_, n) => n + 1),
  )
})

test('the API reads line by line, disconnects on request, and detects a host that ends', async t => {
  const host = await hostWith(t)
  const name = await host.container()
  const open = hostLive(async (app, { path }) =>
    fetch(`${host.url}/apps/${app.id}/${path}`, { headers: { authorization: 'Bearer k' } }),
  )
  const read = async (signal: AbortSignal, into: LiveEvent[]) => {
    for await (const events of await open({ id: host.appId } as never, signal)) into.push(...events)
  }
  const [first, second]: [LiveEvent[], LiveEvent[]] = [[], []]
  const end = new AbortController()
  const reading = read(end.signal, first)
  await waitFor(() => figures(first).length > 0 && host.engine.follows.open === 1)
  host.engine.print(name, `${'🚢'.repeat(50_000)}\n`)
  const lines = () => first.map(event => ('line' in event ? event.line : '')).join('')
  await waitFor(() => lines().length === 100_000)
  t.is(lines(), '🚢'.repeat(50_000))
  end.abort()
  await reading
  await waitFor(() => host.engine.follows.open === 0)

  const other = t.throwsAsync(read(new AbortController().signal, second))
  await waitFor(() => figures(second).length > 0 && host.engine.follows.open === 1)
  host.server.closeAllConnections()
  await other
  await waitFor(() => host.engine.follows.open === 0)
})

async function waitFor(what: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 30_000; !(await what()); await sleep(20))
    if (Date.now() > end) throw new Error('not within 30 s')
}
