import { join } from 'node:path'
import test from 'ava'
import { openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { DayBounds } from '../../../workers/analytics/day-bounds.ts'
import { IntakeRounds } from '../../../workers/analytics/intake-rounds.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { appA, browsers } from '../../kit/analytics/log-lines.ts'
import { ownFolder } from '../../kit/folders.ts'
import { ask, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy } from '../../kit/servers/proxy.ts'

test('requests that the real proxy logs are counted, whatever bytes they contain', async t => {
  const proxy = await startProxy({ EDGE_TRUSTED_PROXIES: '127.0.0.1' })
  const origin = await startOrigin((_, answer) => {
    answer.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' })
    answer.end('<p>page</p>')
  })
  t.teardown(async () => {
    await origin.stop()
    await proxy.stop()
  })
  await proxy.edge.setRoute({ host: 'mine.localhost', appId: appA, address: '127.0.0.1', port: origin.port })
  const headers = {
    'x-forwarded-for': '200.160.2.3',
    'user-agent': browsers[0],
    referer: 'https://www.google.com/',
  }
  const paths = ['/', '/caf%C3%A9?q=%22x%22', '/%ff%c3(', '/quote%22%5C%0a', '/%00nul']
  for (const path of paths) await ask(proxy.port, 'mine.localhost', { path, headers })
  await ask(proxy.port, 'unknown.localhost', { headers })
  const lines = await proxy.accessLog(paths.length + 1)
  const ours = lines.filter(({ app }) => app === appA)

  const folder = ownFolder(t)
  const engine = await openDuckDb({
    folder,
    addresses: await testAddresses(),
    onBroken: (_, error) => t.fail(String(error)),
  })
  t.teardown(() => engine.close())
  const rounds = new IntakeRounds({
    engine,
    bounds: new DayBounds(engine, folder, 1e9),
    logFolder: join(proxy.config.dataDir, 'proxy/access'),
    log: { info: () => {}, warn: () => {} },
  })
  for (let round = 0; (await rounds.round()) && round < 10; round++);
  const window = { from: Date.now() - 3_600_000, to: Date.now() + 60_000 }
  const about = { appId: appA, ownerId: '1', window }
  const logged = await engine.ask({ ...about, kind: 'logs' })
  t.is(logged.length, ours.length)
  t.true(ours.length >= 4, JSON.stringify(lines))
  t.true(logged.some(({ path, query }) => path === '/café' && query === 'q=%22x%22'))
  for (const line of logged)
    t.like(line, { ip: '200.160.2.3', country: 'BR', agent: browsers[0], host: 'mine.localhost' })
  const { visits, referers } = await engine.ask({ ...about, kind: 'analytics', filters: {} })
  const sum = (list: { visits: number; requests: number }[]) => list.reduce((all, entry) => all + entry.requests, 0)
  t.is(sum(visits), ours.length)
  t.is(referers[0]!.type, 'www.google.com')
})
