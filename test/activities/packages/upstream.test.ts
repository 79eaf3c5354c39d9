import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { upstreams } from '../../../activities/packages/upstream.ts'
import type { BuildProxy } from '../../../policy/hosts/build-settings.ts'
import { ownFolder } from '../../kit/folders.ts'
import { startConnectProxy } from '../../kit/git/connect-proxy.ts'
import { certificates } from '../../kit/servers/certificates.ts'

/* Which requests of the cache take which proxy. */

/** A proxy, and registries behind it that answer so: `registry.example`, by https and by http, which are at loopback as well. */
async function scene(t: ExecutionContext, answer: RequestListener = (_, response) => void response.end('package')) {
  const make = certificates(ownFolder(t))
  const authorities = readFileSync(make.authority('company').certificate, 'utf8')
  const { certificate, key } = make.signed('registry', 'company', 'registry.example')
  const own = make.signed('own', 'company', 'localhost')
  const secure = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, answer)
  const local = createServer({ cert: readFileSync(own.certificate), key: readFileSync(own.key) }, answer)
  const plain = createHttpServer(answer)
  const proxy = await startConnectProxy()
  t.teardown(() => proxy.stop())
  for (const server of [secure, local, plain]) {
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
  }
  const portOf = (server: typeof plain | typeof secure) => (server.address() as AddressInfo).port
  proxy.servers.set('registry.example:443', portOf(secure))
  proxy.servers.set('registry.example:80', portOf(plain))
  const localOrigin = `https://localhost:${portOf(local)}`
  const get = async (url: string, through: Partial<BuildProxy>) => {
    const network = { proxy: { http: null, https: null, none: null, ...through }, authorities }
    const open = upstreams(network, new Set([localOrigin]))
    t.teardown(() => open.close())
    return (await open.get(url, {}, AbortSignal.timeout(20_000))).body.text()
  }
  return { proxy, get, localOrigin }
}

test('a request takes the proxy for its own protocol, and no other', async t => {
  const { proxy, get, localOrigin } = await scene(t)
  t.is(await get(`${localOrigin}/a`, { http: proxy.url }), 'package')
  t.deepEqual(proxy.requests, [])
  await t.throwsAsync(get('http://registry.example/a', { https: proxy.url }))
  t.deepEqual(proxy.requests, [])
  for (const [protocol, port] of [
    ['https', 443],
    ['http', 80],
  ] as const) {
    t.is(await get(`${protocol}://registry.example/a`, { [protocol]: proxy.url }), 'package')
    t.is(proxy.requests.pop()?.target, `registry.example:${port}`)
  }
  t.is(await get(`${localOrigin}/a`, { https: proxy.url, none: 'localhost' }), 'package')
  t.deepEqual(proxy.requests, [])
})

test('a proxy gets a user without a password too', async t => {
  const { proxy, get } = await scene(t)
  await get('https://registry.example/a', { https: proxy.url.replace('http://', 'http://ana@') })
  t.is(proxy.requests[0]?.authorization, `Basic ${Buffer.from('ana:').toString('base64')}`)
})

test('a proxy is asked for no name of a private network, neither by a link nor by a redirect', async t => {
  const { proxy, get } = await scene(t, (request, response) => {
    response.writeHead(302, { location: `http://${request.url?.slice(1)}/a` }).end()
  })
  for (const name of ['vault.internal', 'vault', 'vault.corp', 'localhost.localdomain', '127.0.0.1']) {
    const refused = { name: 'NotAsked', message: new RegExp(`^${name} is (a name of a private|no public)`) }
    await t.throwsAsync(get(`http://${name}/a`, { http: proxy.url }), refused)
    await t.throwsAsync(get(`http://registry.example/${name}`, { http: proxy.url }), refused)
  }
  t.deepEqual([...new Set(proxy.requests.map(({ target }) => target))], ['registry.example:80'])
})

test('a proxy that cannot be read is not passed by', async t => {
  const { get, localOrigin } = await scene(t)
  const unreadable = { name: 'NotAsked', message: /^The proxy for packages is no http or https address/ }
  for (const https of ['socks5://127.0.0.1:1', 'http://ana:p%zz@127.0.0.1:1'])
    await t.throwsAsync(get(`${localOrigin}/a`, { https }), unreadable)
})
