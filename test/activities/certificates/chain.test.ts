import { execFileSync } from 'node:child_process'
import test from 'ava'
import { certifyKey, issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import { chainFacts, chainTrouble, requestFits } from '../../../activities/certificates/chain.ts'
import { newRequest, readRequest } from '../../../activities/certificates/request.ts'

const day = 86_400_000
const hostnames = ['www.example.test', '*.example.test']
const terms = { kind: 'server', commonName: 'example.test', names: hostnames, addresses: [], days: 90 } as const

async function chainOf(now = new Date()) {
  const root = await makeAuthority(now, 'domains')
  const { privateKey, csr } = await newRequest(hostnames)
  const { publicKey } = (await readRequest(csr))!
  const { certificate } = await certifyKey(root, { ...terms, publicKey }, now)
  return { root, leaf: certificate, chain: certificate + root.certificate, privateKey, csr }
}

test('the facts of a chain are those of its first certificate, as openssl reads it', async t => {
  const { chain, leaf } = await chainOf()
  const facts = chainFacts(chain)
  const openssl = (...words: string[]) =>
    execFileSync('openssl', ['x509', '-noout', ...words], { input: leaf, encoding: 'utf8' })
  t.is(facts.serial, openssl('-serial').split('=')[1]!.trim().toLowerCase())
  t.true(openssl('-issuer').includes(facts.issuer))
  t.is(facts.notBefore.getTime(), Date.parse(openssl('-startdate').split('=')[1]!))
  t.is(facts.notAfter.getTime(), Date.parse(openssl('-enddate').split('=')[1]!))
  t.deepEqual(facts.names, hostnames)
  const keyId = openssl('-ext', 'authorityKeyIdentifier')
    .match(/([0-9A-F]{2}:){19}[0-9A-F]{2}/)![0]
    .replaceAll(':', '')
  const [key, serial] = facts.ariId!.split('.').map(text => Buffer.from(text, 'base64url').toString('hex'))
  t.deepEqual([key, serial], [keyId.toLowerCase(), facts.serial])
})

test('the id of a certificate is that of the example of RFC 9773, whose serial number begins with a set bit', t => {
  t.is(chainFacts(example).ariId, 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE')
})

test('a chain serves the names that it is for, with its key, during its time', async t => {
  const now = new Date('2027-01-01T00:00:00Z')
  const { root, leaf, chain, privateKey } = await chainOf(now)
  const trouble = (text: string, changes: object = {}) => chainTrouble(text, { privateKey, hostnames, now, ...changes })
  t.is(trouble(chain), null)
  t.is(trouble(leaf), null, 'the issuer may be left out')
  t.is(trouble(chain, { hostnames: ['a.example.test', '*.example.test'] }), null)
  for (const hostname of ['example.test', 'a.b.example.test', '*.www.example.test', 'www.example.test.com'])
    t.is(trouble(chain, { hostnames: [hostname] }), `The certificate is not valid for ${hostname}.`)
  t.regex(trouble(chain, { now: new Date(now.getTime() - 2 * 3_600_000) }) ?? '', /not valid before/)
  t.is(trouble(chain, { now: new Date(now.getTime() + 89 * day) }), null)
  t.regex(trouble(chain, { now: new Date(now.getTime() + 90 * day) }) ?? '', /expired at 2027-/)
  t.regex(trouble(chain, { privateKey: (await newRequest(hostnames)).privateKey }) ?? '', /another key/)
  const other = await makeAuthority(now, 'domains')
  t.regex(trouble(leaf + other.certificate) ?? '', /do not follow each other/)
  t.regex(trouble(leaf + leaf) ?? '', /do not follow each other/)
  t.regex(trouble(chain + root.certificate.repeat(10)) ?? '', /too many/)
  t.is(
    chainTrouble(root.certificate, { privateKey: root.privateKey, hostnames: [], now }),
    'The certificate is that of an authority.',
  )
})

test('a chain that cannot be read is refused, and the error does not repeat its key', async t => {
  const { chain, privateKey } = await chainOf()
  const unread = 'The chain or the key cannot be read.'
  for (const text of ['', 'text', chain.replace('MII', 'AAA'), 'x'.repeat(300_000)])
    t.is(chainTrouble(text, { privateKey, hostnames }), unread)
  t.is(chainTrouble(chain, { privateKey: privateKey.replace('MIGH', 'AAAA'), hostnames }), unread)
})

test('a request belongs to the certificate of its key', async t => {
  const { chain, csr, root } = await chainOf()
  t.true(requestFits(csr, chain))
  t.false(requestFits((await newRequest(hostnames)).csr, chain))
  t.false(requestFits(csr, (await issueCertificate(root, terms)).certificate))
  for (const wrong of [Buffer.alloc(0), Buffer.from('text')]) t.false(requestFits(wrong, chain))
})

test('openssl reads a request, its names and its signature', async t => {
  const { csr } = await newRequest(hostnames)
  const words = ['req', '-inform', 'DER', '-noout', '-verify', '-text']
  const text = execFileSync('openssl', words, { input: csr, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] })
  t.regex(text, /DNS:www\.example\.test, DNS:\*\.example\.test/)
  t.regex(text, /prime256v1/)
})

/** RFC 9773, appendix A. */
const example = `-----BEGIN CERTIFICATE-----
MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt
cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS
BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu
7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf
qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B
yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb
+FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK
-----END CERTIFICATE-----`
