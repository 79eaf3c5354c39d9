import { networkInterfaces } from 'node:os'
import test from 'ava'
import { surfaceTargets } from '../../edge/surfaces.ts'
import { ask, type Call, named } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

/** An address of this machine that is not loopback: its clients count as another machine. */
const [elsewhere] = Object.values(networkInterfaces())
  .flatMap(all => all ?? [])
  .filter(({ family, internal }) => family === 'IPv4' && !internal)
  .map(({ address }) => address)
if (elsewhere === undefined)
  throw new Error('This test needs an IPv4 address in addition to loopback, such as that of the engine.')

const cases: [title: string, settings: Record<string, string>, passes: boolean][] = [
  ['refused where something else ends TLS', { EDGE_TRUSTED_PROXIES: '192.0.2.9' }, false],
  [
    'refused where the proxy listens for both kinds of addresses',
    { EDGE_TRUSTED_PROXIES: '192.0.2.9,2001:db8::9', EDGE_BIND: '::ffff:127.0.0.1' },
    false,
  ],
  ['passed on where that is what ends TLS', { EDGE_TRUSTED_PROXIES: elsewhere }, true],
  ['passed on where plain http was asked for', { EDGE_TRUSTED_PROXIES: '192.0.2.9', ALLOW_PLAIN_HTTP: 'on' }, true],
  ['passed on where nothing ends TLS', {}, true],
]
for (const [title, settings, passes] of cases)
  test.serial(`plain http of another machine is ${title}`, async t => {
    const [application, api] = [await named('application'), await named('api')]
    const ports = { base: api.port, blob: api.port, s3: api.port, files: api.port, public: api.port }
    const proxy = await startProxy(settings, () => ({ targets: surfaceTargets('127.0.0.1', [ports]) }))
    t.teardown(async () => {
      await proxy.stop()
      for (const origin of [application, api]) await origin.stop()
    })
    const route = { host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: application.port }
    await proxy.edge.setRoute(route)
    const forged = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '127.0.0.1' }
    const reported = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.5' }
    const calls: Call[] = [
      {},
      { headers: forged },
      { headers: reported },
      { method: 'POST', body: 'x'.repeat(100_000) },
    ]
    for (const call of calls) {
      t.is((await ask(proxy.port, 'a.localhost', call)).body, 'application', 'of this machine')
      t.is((await ask(proxy.port, 'api.localhost', call)).body, 'api', 'of this machine')
      const page = await ask(proxy.port, 'a.localhost', { ...call, from: elsewhere })
      const said = await ask(proxy.port, 'api.localhost', { ...call, from: elsewhere })
      if (passes) {
        t.deepEqual([page.body, said.body], ['application', 'api'])
        continue
      }
      t.deepEqual([page.status, said.status], [400, 400])
      t.regex(page.body, /requires https.*Use https:\/\/a\.localhost instead/s)
      t.like(JSON.parse(said.body), { status: 'error', code: 'INVALID_INPUT' })
      // What would be sent next on this connection is readable too.
      t.deepEqual([page.headers.connection, said.headers.connection], ['close', 'close'])
    }
  })
