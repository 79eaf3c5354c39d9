import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type ConnectionOptions, connect, createServer } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import {
  type Authority,
  type CertificateRequest,
  type IssuedCertificate,
  issueCertificate,
  makeAuthority,
} from '../../../activities/certificates/authority.ts'
import { ownFolder } from '../../kit/folders.ts'

const dayMs = 86_400_000
const name = `db-${'0a'.repeat(16)}.apps.localhost`
const request: CertificateRequest = {
  kind: 'server',
  commonName: name,
  names: [name, 'localhost'],
  addresses: ['127.0.0.1', '::1'],
  days: 397,
}

/** Serves a certificate on 127.0.0.1, and connects to it; resolves to what the client says. */
async function serve(t: ExecutionContext, { certificate, privateKey }: IssuedCertificate) {
  const server = createServer({ cert: certificate, key: privateKey }, socket => socket.end('hello'))
  server.on('tlsClientError', () => {}) // the client says why
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  return (options: ConnectionOptions) =>
    new Promise<string>(done => {
      const socket = connect({ host: '127.0.0.1', port, ...options }, () => socket.resume().end())
      socket.setTimeout(10_000, () => socket.destroy(new Error('no answer')))
      socket.on('error', error => done((error as NodeJS.ErrnoException).code ?? error.message))
      socket.on('secureConnect', () => done(socket.authorized ? 'verified' : 'not verified'))
    })
}

/** What `openssl verify` says of a certificate, in its strict mode. */
function verified(t: ExecutionContext, authority: Authority, certificate: string, ...options: string[]): string {
  const folder = ownFolder(t)
  const [trusted, shown] = ['authority.pem', 'shown.pem'].map(file => join(folder, file)) as [string, string]
  writeFileSync(trusted, authority.certificate)
  writeFileSync(shown, certificate)
  try {
    const words = ['verify', '-x509_strict', '-CAfile', trusted, ...options, shown]
    return execFileSync('openssl', words, { encoding: 'utf8', stdio: 'pipe' }).includes(': OK') ? 'OK' : 'unclear'
  } catch (error) {
    return (
      /error \d+ at \d+ depth lookup: (.*)/.exec((error as { stderr: string }).stderr)?.[1]?.trim() ?? String(error)
    )
  }
}

test('a client that trusts the authority verifies a server by its names and addresses', async t => {
  const [authority, other] = await Promise.all([makeAuthority(), makeAuthority()])
  const ask = await serve(t, await issueCertificate(authority, request))
  const ca = authority.certificate
  t.is(await ask({ ca, servername: name }), 'verified')
  t.is(await ask({ ca, servername: 'localhost' }), 'verified')
  t.is(await ask({ ca }), 'verified', 'by its address')
  t.is(await ask({ ca, servername: `db-${'0b'.repeat(16)}.apps.localhost` }), 'ERR_TLS_CERT_ALTNAME_INVALID')
  t.is(await ask({ ca, servername: `x.${name}` }), 'ERR_TLS_CERT_ALTNAME_INVALID')
  t.is(await ask({ ca: other.certificate, servername: name }), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE')
  t.is(await ask({ servername: name }), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'the system does not know the authority')
})

test('a server verifies the certificate of a client, and takes no server for one', async t => {
  const authority = await makeAuthority()
  const [server, client] = await Promise.all([
    issueCertificate(authority, request),
    issueCertificate(authority, { kind: 'client', commonName: 'default', names: [], addresses: [], days: 397 }),
  ])
  t.is(verified(t, authority, client.certificate, '-purpose', 'sslclient'), 'OK')
  t.regex(verified(t, authority, client.certificate, '-purpose', 'sslserver'), /purpose/)
  t.regex(verified(t, authority, server.certificate, '-purpose', 'sslclient'), /purpose/)
})

test('openssl accepts a server in its strict mode, for its names and addresses only', async t => {
  const [authority, other] = await Promise.all([makeAuthority(), makeAuthority()])
  const { certificate } = await issueCertificate(authority, request)
  const says = (...options: string[]) => verified(t, authority, certificate, '-purpose', 'sslserver', ...options)
  t.is(says('-verify_hostname', name), 'OK')
  t.is(says('-verify_ip', '127.0.0.1'), 'OK')
  t.is(says('-verify_ip', '::1'), 'OK')
  t.is(says('-verify_hostname', 'db.apps.localhost'), 'hostname mismatch')
  t.is(says('-verify_ip', '127.0.0.2'), 'IP address mismatch')
  t.regex(verified(t, other, certificate), /unable to get (local )?issuer certificate/)
})

test('a certificate that an authority has issued cannot issue others', async t => {
  const authority = await makeAuthority()
  const { certificate, privateKey } = await issueCertificate(authority, request)
  const forged = await issueCertificate({ certificate, privateKey }, request)
  const chain = join(ownFolder(t), 'chain.pem')
  writeFileSync(chain, certificate)
  t.regex(verified(t, authority, forged.certificate, '-untrusted', chain), /invalid CA|issuer|purpose|pathlen/i)
  const limits = (input: string) =>
    execFileSync('openssl', ['x509', '-noout', '-ext', 'basicConstraints,keyUsage'], { input, encoding: 'utf8' })
  t.regex(limits(certificate), /critical\s+CA:FALSE\s.*critical\s+Digital Signature\s*$/s)
  t.regex(limits(authority.certificate), /critical\s+CA:TRUE, pathlen:0\s.*critical\s+Certificate Sign, CRL Sign\s*$/s)
})

test('certificates begin in the past, end as reported, and never outlive their authority', async t => {
  const authority = await makeAuthority()
  const validity = (pem: string) => {
    const { validFrom, validTo } = new X509Certificate(pem)
    return { from: Date.parse(validFrom), to: Date.parse(validTo) }
  }
  const own = validity(authority.certificate)
  t.is(own.to - own.from, 3650 * dayMs)
  const server = await issueCertificate(authority, request)
  const { from, to } = validity(server.certificate)
  t.true(from < Date.now() - 30 * 60_000, 'clocks differ')
  t.is(to - from, 397 * dayMs)
  t.is(server.endsAt.getTime(), to)
  const long = await issueCertificate(authority, { ...request, kind: 'client', days: 5000 })
  t.is(validity(long.certificate).to, own.to)
  t.is(long.endsAt.getTime(), own.to)
  for (const days of [398, 0, -1, 1.5, Number.NaN])
    await t.throwsAsync(issueCertificate(authority, { ...request, days }), { instanceOf: RangeError }, String(days))
})

test('every certificate has a key and a positive serial number of its own', async t => {
  const authority = await makeAuthority()
  const issued = await Promise.all(Array.from({ length: 20 }, () => issueCertificate(authority, request)))
  const parsed = issued.map(({ certificate }) => new X509Certificate(certificate))
  for (const { serialNumber, publicKey } of parsed) {
    t.regex(serialNumber, /^[4-7][0-9A-F]{31}$/)
    t.deepEqual(publicKey.asymmetricKeyDetails, { namedCurve: 'prime256v1' })
  }
  t.is(new Set(parsed.map(({ serialNumber }) => serialNumber)).size, 20)
  t.is(new Set(issued.map(({ privateKey }) => privateKey)).size, 20)
  const [first, second] = await Promise.all([makeAuthority(), makeAuthority()])
  t.not(new X509Certificate(first.certificate).subject, new X509Certificate(second.certificate).subject)
})

test('a host name that is too long for a common name is verified all the same', async t => {
  const authority = await makeAuthority()
  const long = `db-${'0a'.repeat(16)}.${'domain.'.repeat(8)}example`
  const { certificate } = await issueCertificate(authority, { ...request, commonName: long, names: [long] })
  t.is(verified(t, authority, certificate, '-verify_hostname', long), 'OK')
  t.is(new X509Certificate(certificate).subject.length, 'CN='.length + 64)
})

test('characters with a meaning in a name stay characters', async t => {
  const authority = await makeAuthority()
  const commonName = 'a,O=b+C=DE'
  const { certificate } = await issueCertificate(authority, { ...request, commonName })
  const { CN, O } = new X509Certificate(certificate).toLegacyObject().subject as { CN: string; O?: string }
  t.deepEqual({ CN, O }, { CN: commonName, O: undefined })
})
