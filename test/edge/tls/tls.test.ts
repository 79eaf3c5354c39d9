import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ConnectionOptions, connect } from 'node:tls'
import test from 'ava'
import { control } from '../../../activities/edge/control-socket.ts'
import { CertificateRefused, type ServedCertificate } from '../../../activities/edge/port.ts'
import { unset } from '../../contracts/edge/settings.ts'
import { askHttps, handshake, type Issuer, testIssuer } from '../../kit/servers/https.ts'
import { named, type Origin } from '../../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

let proxy: TestProxy
let issuer: Issuer
let origin: Origin

test.before(async () => {
  proxy = await startProxy({ EDGE_TLS: 'local' })
  issuer = await testIssuer()
  origin = await named('reached')
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

const greet = (name: string, options: ConnectionOptions = {}) =>
  handshake(proxy.tlsPort, name, { ca: issuer.root, ...options })
const nameIn = async (name: string) => (await greet(name)).certificate.subject.CN
/** OpenSSL's words for an alert of the other side. */
const refusal = { message: /alert (internal error|handshake failure|protocol version)/ }
const serialOf = (pem: string) => new X509Certificate(pem).serialNumber
const route = (host: string) => proxy.edge.setRoute({ host, appId: 'a1', address: '127.0.0.1', port: origin.port })

test.serial('of 200 names each handshake gets its own certificate, an exact name before a wildcard', async t => {
  const names = Array.from({ length: 200 }, (_, index) => `shop-${index}.example.com`)
  const certificates: ServedCertificate[] = []
  for (const name of [...names, '*.apps.localhost', 'own.apps.localhost']) certificates.push(await issuer.issue(name))
  await proxy.edge.syncCertificates(certificates)
  const seen: [asked: string, served: string][] = []
  const ask = async (name: string) => seen.push([name, String(await nameIn(name))])
  for (let round = 0; round < 2; round++)
    for (let at = 0; at < names.length; at += 8) await Promise.all(names.slice(at, at + 8).map(ask))
  t.is(seen.length, 400)
  t.deepEqual(
    seen.filter(([asked, served]) => asked !== served),
    [],
  )
  t.is(await nameIn('any.apps.localhost'), '*.apps.localhost')
  t.is(await nameIn('own.apps.localhost'), 'own.apps.localhost')
  t.is(await nameIn('Own.Apps.LocalHost'), 'own.apps.localhost')
})

test.serial('a name without a certificate, and a client without a name, get no handshake', async t => {
  await proxy.edge.syncCertificates([await issuer.issue('*.apps.localhost'), await issuer.issue('a.example.com')])
  await t.notThrowsAsync(greet('a.example.com'))
  for (const name of ['b.example.com', 'example.com', 'apps.localhost', 'a.b.apps.localhost', ''])
    await t.throwsAsync(greet(name, { rejectUnauthorized: false }), refusal, name)
})

test.serial('sessions are resumed without another handshake, until the certificate is removed', async t => {
  await proxy.edge.syncCertificates([await issuer.issue('a.example.com')])
  const visit = async (session?: Buffer) => {
    const socket = connect({
      host: '127.0.0.1',
      port: proxy.tlsPort,
      servername: 'a.example.com',
      ca: issuer.root,
      session,
    })
    const next = once(socket, 'session', { signal: AbortSignal.timeout(5000) })
    await Promise.all([once(socket, 'secureConnect'), next.catch(() => {})])
    const resumed = socket.isSessionReused()
    socket.destroy()
    return { resumed, session: ((await next.catch(() => [session])) as Buffer[])[0] }
  }
  const first = await visit()
  t.false(first.resumed)
  const second = await visit(first.session)
  t.true(second.resumed)
  await proxy.edge.removeCertificate('a.example.com')
  await t.throwsAsync(visit(second.session), refusal)
})

/** As an application with this custom name asks for it, which need not run. */
async function demandTls13(host: string) {
  const member = `of-${host}`
  await proxy.edge.setName({ host, members: [`${member}@strict`] })
  await proxy.edge.setSettings({ ...unset, host: member, appId: 'strict', minTls: '1.3' })
}

test.serial('clients may use TLS 1.2 and 1.3, and only 1.3 where a name demands it', async t => {
  await proxy.edge.syncCertificates([await issuer.issue('a.example.com'), await issuer.issue('strict.example.com')])
  await demandTls13('strict.example.com')
  const only = (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'): ConnectionOptions => ({
    minVersion: version,
    maxVersion: version,
    ciphers: 'DEFAULT@SECLEVEL=0',
  })
  t.is((await greet('a.example.com', only('TLSv1.2'))).protocol, 'TLSv1.2')
  t.is((await greet('a.example.com', only('TLSv1.3'))).protocol, 'TLSv1.3')
  await t.throwsAsync(greet('a.example.com', only('TLSv1.1')), refusal)
  t.is((await greet('strict.example.com')).protocol, 'TLSv1.3')
  await t.throwsAsync(greet('strict.example.com', only('TLSv1.2')), refusal)
})

test.serial('a session of TLS 1.2 under another name does not reach a name that demands 1.3', async t => {
  await proxy.edge.syncCertificates([await issuer.issue('a.example.com'), await issuer.issue('strict.example.com')])
  await demandTls13('strict.example.com')
  await route('strict.example.com')
  const strict = { headers: { host: 'strict.example.com' } }
  const tls12 = { maxVersion: 'TLSv1.2' } as const
  t.is((await askHttps(proxy.tlsPort, 'a.example.com', issuer.root, strict, tls12)).status, 421)
  t.is((await askHttps(proxy.tlsPort, 'a.example.com', issuer.root, strict)).body, 'reached')
})

test.serial(
  'a certificate that is replaced 200 times while clients connect is in the next handshake each time',
  async t => {
    const versions: ServedCertificate[] = []
    for (let index = 0; index < 20; index++) versions.push(await issuer.issue('busy.example.com'))
    const serials = new Map(versions.map(({ version, chain }) => [version, serialOf(chain)]))
    await proxy.edge.syncCertificates([versions[0]!])
    let running = true
    let others = 0
    const clients = Array.from({ length: 4 }, async () => {
      for (; running; others++) await greet('busy.example.com')
    })
    const old: number[] = []
    for (let turn = 1; turn <= 200; turn++) {
      const certificate = versions[turn % versions.length]!
      await proxy.edge.setCertificate(certificate)
      const { serialNumber } = (await greet('busy.example.com')).certificate
      if (serialNumber !== serials.get(certificate.version)) old.push(turn)
    }
    running = false
    await Promise.all(clients) // rejects when any of their handshakes failed
    t.deepEqual(old, [])
    t.true(others > 0)
  },
)

test.serial('certificates and answers survive a reload, a kill and a removal', async t => {
  await proxy.edge.syncCertificates([await issuer.issue('stays.example.com'), await issuer.issue('ends.example.com')])
  await proxy.edge.setCertificate(await issuer.issue('later.example.com'))
  await demandTls13('later.example.com')
  await proxy.edge.removeCertificate('ends.example.com')
  await proxy.edge.setAnswers({ 'acme-challenge': 'thumbprint', 'berth-check': 'proof' })
  const check = async (when: string) => {
    for (const name of ['stays.example.com', 'later.example.com']) t.is(await nameIn(name), name, when)
    await t.throwsAsync(greet('ends.example.com'), refusal, when)
    await t.throwsAsync(greet('later.example.com', { maxVersion: 'TLSv1.2' }), refusal, when)
    const answer = await askHttps(proxy.tlsPort, 'stays.example.com', issuer.root, {
      path: '/.well-known/berth-check/abc',
    })
    t.is(answer.body, 'abc.proof', when)
  }
  await check('at first')
  proxy.reload()
  for (let look = 0; look < 10; look++, await sleep(50)) await check('while and after it reloads')
  await proxy.kill('SIGKILL')
  await proxy.start()
  await check('after a kill')
})

test.serial('a private key is in no log, list or error, and its file is readable by its owner only', async t => {
  const good = await issuer.issue('secret.example.com')
  const other = await issuer.issue('other.example.com')
  await proxy.edge.syncCertificates([good])
  await proxy.edge.setCertificate(await issuer.issue('secret.example.com'))
  await askHttps(proxy.tlsPort, 'secret.example.com', issuer.root)
  const socket = proxy.config.edge.controlSocket
  const post = (body: string) =>
    control(socket, { method: 'POST', path: '/certificates', body, Refused: CertificateRefused })
  const line = JSON.stringify({ host: good.host, version: '1', chain: good.chain, key: good.key })
  const said: string[] = []
  // Two that are malformed for the proxy, and one for OpenSSL.
  for (const body of [line.slice(0, -1), line.replace('"version":"1"', '"version":9'), line.replaceAll('BEGIN', 'END')])
    said.push(String(await post(body).catch(error => error)))
  t.regex(said[0]!, /CertificateRefused/)
  said.push(String(await greet('secret.example.com').catch(error => error)))
  await post(JSON.stringify({ host: good.host, version: '2', chain: good.chain, key: other.key }))
  said.push(String(await greet('secret.example.com').catch(error => error)))
  said.push(await control(socket, { method: 'GET', path: '/certificates', Refused: Error }))
  said.push(proxy.errors(), JSON.stringify(await proxy.accessLog(1)))
  t.regex(proxy.errors(), /the certificate of secret\.example\.com cannot be used/)
  for (const { key } of [good, other])
    for (const part of key.split('\n').slice(1, -2)) t.false(said.join('\n').includes(part), said.join('\n'))
  const files = join(proxy.config.dataDir, 'proxy')
  const kept = ['certificates', 'settings', 'answers', 'routes'].map(name => `tables/${name}.json`)
  for (const name of [...kept, 'unused-certificate.pem'])
    t.is((await stat(join(files, name))).mode & 0o777, 0o600, name)
})

test.serial('a table without room refuses, and changes nothing', async t => {
  const kept = await issuer.issue('kept.example.com')
  await proxy.edge.syncCertificates([kept])
  const { chain, key } = kept
  const line = (index: number) =>
    JSON.stringify({ host: `n${index}.example.com`, version: '1', chain: chain.repeat(12), key })
  const body = Array.from({ length: 8000 }, (_, index) => line(index)).join('\n')
  const put = control(proxy.config.edge.controlSocket, {
    method: 'PUT',
    path: '/certificates',
    body,
    deadlineMs: 60_000,
    Refused: CertificateRefused,
  })
  await t.throwsAsync(put, { instanceOf: CertificateRefused, message: /no memory/ })
  t.deepEqual(await proxy.edge.listCertificates(), [{ host: kept.host, version: kept.version }])
  t.is(await nameIn('kept.example.com'), 'kept.example.com')
})
