import { once } from 'node:events'
import { connect as connectPlain, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { connect as connectTls } from 'node:tls'
import test from 'ava'
import { surfaceTargets } from '../../../edge/surfaces.ts'
import { edgeAnswers } from '../../../workers/adapters/edge-answers.ts'
import { testIssuer } from '../../kit/servers/https.ts'
import { named, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy } from '../../kit/servers/proxy.ts'

/** An address of this machine that is not loopback. */
const [elsewhere] = Object.values(networkInterfaces())
  .flatMap(all => all ?? [])
  .filter(({ family, internal }) => family === 'IPv4' && !internal)
  .map(({ address }) => address)
if (elsewhere === undefined) throw new Error('This test needs an IPv4 address other than loopback.')

const client = (address: string) => `PROXY TCP4 ${address} 192.0.2.1 5000 443\r\n`

async function answerOf(socket: Socket, request: string): Promise<string> {
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  socket.on('error', () => {})
  socket.write(request)
  await once(socket, 'close')
  return text
}

test('the client of a PROXY header is believed if it comes from a trusted address, and what it sends itself is not', async t => {
  const application = await startOrigin(({ headers }, answer) =>
    answer.end(`${headers['x-forwarded-for']} ${headers['x-forwarded-proto']}`),
  )
  const api = await named('api')
  const ports = { base: api.port, blob: api.port, s3: api.port, files: api.port, public: api.port }
  const proxy = await startProxy(
    { EDGE_TLS: 'local', EDGE_PROXY_PROTOCOL: 'on', EDGE_TRUSTED_PROXIES: '127.0.0.1' },
    () => ({ targets: surfaceTargets('127.0.0.1', [ports]) }),
  )
  t.teardown(async () => {
    await proxy.stop()
    await application.stop()
    await api.stop()
  })
  const issuer = await testIssuer()
  for (const host of ['a.localhost', 'plain.localhost'])
    await proxy.edge.setRoute({ host, appId: 'a1', address: '127.0.0.1', port: application.port })
  await proxy.edge.setCertificate(await issuer.issue('a.localhost'))
  const forged = 'X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n'
  const get = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n${forged}`

  const plain = (header: string, host: string, localAddress?: string) =>
    answerOf(connectPlain({ host: '127.0.0.1', port: proxy.port, localAddress }), header + get(host))
  t.regex(await plain(client('203.0.113.5'), 'plain.localhost'), /\r\n\r\n203\.0\.113\.5 http$/)
  t.regex(await plain(client('203.0.113.5'), 'plain.localhost', elsewhere), new RegExp(`\r\n\r\n${elsewhere} http$`))
  t.regex(await plain(client('203.0.113.5'), 'a.localhost'), /^HTTP\/1\.1 308 /)
  t.is(await plain('', 'plain.localhost'), '', 'without a header')
  // Plain http of another machine, although it comes through the balancer.
  t.regex(await plain(client('203.0.113.5'), 'api.localhost'), /^HTTP\/1\.1 400 [\s\S]*requires https/)
  t.regex(await plain(client('127.0.0.1'), 'api.localhost'), /^HTTP\/1\.1 200 /)

  const below = connectPlain({ host: '127.0.0.1', port: proxy.tlsPort })
  below.write(client('203.0.113.6'))
  const socket = connectTls({ socket: below, servername: 'a.localhost', ca: issuer.root })
  t.regex(await answerOf(socket, get('a.localhost')), /\r\n\r\n203\.0\.113\.6 https$/)

  await t.notThrowsAsync(edgeAnswers(proxy.config.edge))
})

test('without TLS, what is trusted may pass on plain http of other machines', async t => {
  const api = await named('api')
  const ports = { base: api.port, blob: api.port, s3: api.port, files: api.port, public: api.port }
  const proxy = await startProxy({ EDGE_PROXY_PROTOCOL: 'on', EDGE_TRUSTED_PROXIES: '127.0.0.1' }, () => ({
    targets: surfaceTargets('127.0.0.1', [ports]),
  }))
  t.teardown(async () => {
    await proxy.stop()
    await api.stop()
  })
  const request = `${client('203.0.113.5')}GET / HTTP/1.1\r\nHost: api.localhost\r\nConnection: close\r\n\r\n`
  const ask = (localAddress?: string) =>
    answerOf(connectPlain({ host: '127.0.0.1', port: proxy.port, localAddress }), request)
  t.regex(await ask(), /^HTTP\/1\.1 200 /)
  t.regex(await ask(elsewhere), /^HTTP\/1\.1 400 /)
})
