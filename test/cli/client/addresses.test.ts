import test from 'ava'
import { addressOf, requestApp } from '../../../cli/client/client.ts'
import { parseConfig } from '../../../policy/config.ts'
import { testIssuer } from '../../kit/servers/https.ts'
import { named } from '../../kit/servers/origin.ts'
import { startProxy } from '../../kit/servers/proxy.ts'

const target = (edgeUrl: string | null) => ({ baseUrl: '', apiKey: '', edgeUrl })

test('an application has the scheme and the port of the proxy in its address', t => {
  const addresses: [edgeUrl: string | null, address: string][] = [
    ['http://127.0.0.1:8080', 'http://shop.apps.localhost:8080'],
    ['http://example.com', 'http://shop.apps.localhost'],
    ['https://example.com:443', 'https://shop.apps.localhost'],
    ['https://127.0.0.1:8443', 'https://shop.apps.localhost:8443'],
    [null, 'http://shop.apps.localhost'],
  ]
  for (const [edgeUrl, address] of addresses) t.is(addressOf(target(edgeUrl), 'shop.apps.localhost'), address)
})

test('the address of the proxy is https where it serves that, unless it is set', t => {
  const urlOf = (env: Record<string, string>) => parseConfig(env, '/').urls.edge
  t.is(urlOf({}), 'http://127.0.0.1:8080')
  t.is(urlOf({ EDGE_TLS: 'local' }), 'https://127.0.0.1:8443')
  t.is(urlOf({ EDGE_TLS: 'local', EDGE_TLS_PORT: '443' }), 'https://127.0.0.1:443')
  t.is(urlOf({ EDGE_TLS: 'local', EDGE_URL: 'https://example.com' }), 'https://example.com')
})

test('an application is requested over https where the proxy serves it, whichever authority has certified it', async t => {
  const proxy = await startProxy({ EDGE_TLS: 'local' })
  t.teardown(proxy.stop)
  const origin = await named('shop')
  t.teardown(origin.stop)
  const host = 'shop.apps.localhost'
  await proxy.edge.setRoute({ host, appId: 'shop', address: '127.0.0.1', port: origin.port })
  await proxy.edge.setCertificate(await (await testIssuer()).issue('*.apps.localhost'))
  const over = target(`https://127.0.0.1:${proxy.tlsPort}`)
  t.deepEqual(await requestApp(over, host), { status: 200, ofProxy: false })
  t.deepEqual(await requestApp(over, 'none.apps.localhost'), { status: 404, ofProxy: true })
})
