import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { TestFn } from 'ava'
import { CertificateRefused, type Edge, type ServedCertificate } from '../../../activities/edge/port.ts'
import { testIssuer } from '../../kit/servers/https.ts'

const pemOf = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString()

const encrypted = (pem: string) =>
  createPrivateKey(pem).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' }).toString()

/** The contract of the certificates and answers of every edge. The tests rewrite its table, one test at a time. */
export function edgeCertificatesContract(test: TestFn, name: string, make: () => Promise<Edge>) {
  const issuer = testIssuer()
  const issue = async (host: string, more?: Partial<ServedCertificate>) => (await issuer).issue(host, more)
  const table = async (edge: Edge) =>
    (await edge.listCertificates()).map(({ host, version }) => `${host} ${version}`).sort()

  test.serial(`${name}: a list of certificates has hosts and versions, and nothing else`, async t => {
    const edge = await make()
    await edge.syncCertificates([])
    await edge.setCertificate(await issue('shop.example.com', { version: 'one' }))
    await edge.setCertificate(await issue('*.apps.localhost', { version: 'two' }))
    const listed = await edge.listCertificates()
    t.deepEqual(
      listed.sort((one, other) => (one.host < other.host ? -1 : 1)),
      [
        { host: '*.apps.localhost', version: 'two' },
        { host: 'shop.example.com', version: 'one' },
      ],
    )
  })

  test.serial(`${name}: setting a certificate again replaces it and may be repeated`, async t => {
    const edge = await make()
    const [one, two] = [await issue('a.localhost', { version: '1' }), await issue('a.localhost', { version: '2' })]
    await edge.syncCertificates([one])
    await edge.setCertificate(two)
    await edge.setCertificate(two)
    t.deepEqual(await table(edge), ['a.localhost 2'])
  })

  test.serial(`${name}: removing deletes the certificate, and an unknown host is success`, async t => {
    const edge = await make()
    await edge.syncCertificates([await issue('a.localhost', { version: '1' }), await issue('*.b.localhost')])
    await edge.removeCertificate('*.b.localhost')
    await edge.removeCertificate('*.b.localhost')
    await edge.removeCertificate('never was')
    t.deepEqual(await table(edge), ['a.localhost 1'])
  })

  test.serial(`${name}: a sync makes the certificates equal to what it is given, or changes nothing`, async t => {
    const edge = await make()
    const [a, b, c] = await Promise.all(['a', 'b', 'c'].map(label => issue(`${label}.localhost`, { version: label })))
    await edge.syncCertificates([a!, b!])
    await edge.syncCertificates([b!, c!])
    t.deepEqual(await table(edge), ['b.localhost b', 'c.localhost c'])
    const refused = edge.syncCertificates([a!, { ...c!, key: b!.key }])
    await t.throwsAsync(refused, { instanceOf: CertificateRefused })
    t.deepEqual(await table(edge), ['b.localhost b', 'c.localhost c'])
    await edge.syncCertificates([])
    t.deepEqual(await table(edge), [])
  })

  test.serial(`${name}: a certificate that clients would not accept is refused, and changes nothing`, async t => {
    const edge = await make()
    const [good, other] = [await issue('a.localhost', { version: 'good' }), await issue('b.localhost')]
    await edge.syncCertificates([good])
    const next = { ...good, version: 'next' }
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey
    const refused: [why: string, certificate: ServedCertificate, message: RegExp][] = [
      ['the key of another', { ...next, key: other.key }, /does not fit its key/],
      ['no key', { ...next, key: '' }, /key that cannot be read/],
      ['an encrypted key', { ...next, key: encrypted(good.key) }, /cannot be read/],
      ['a weak key', { ...next, key: pemOf(weak) }, /key other than RSA of 2048/],
      ['no certificate', { ...next, chain: 'none' }, /cannot be read as PEM/],
      ['a broken certificate', { ...next, chain: good.chain.replace(/.{64}\n/, '') }, /cannot be read as PEM/],
      ['another host', { ...next, host: 'b.localhost' }, /does not name this host/],
      ['a wildcard that it is not', { ...next, host: '*.localhost' }, /does not name this host/],
      ['a chain out of order', { ...next, chain: good.chain + other.chain }, /did not issue it/],
      ['a host in upper case', { ...next, host: 'A.localhost' }, /no host name in lower case/],
      ['a version with a quote', { ...next, version: 'a"' }, /has no version/],
    ]
    for (const [why, certificate, message] of refused) {
      const error = await t.throwsAsync(
        edge.setCertificate(certificate),
        { instanceOf: CertificateRefused, message },
        why,
      )
      const secret = certificate.key.split('\n')[1]
      if (secret) t.false(`${error?.message} ${error?.stack}`.includes(secret), `${why}: a key in the error`)
    }
    t.deepEqual(await table(edge), ['a.localhost good'])
  })

  test.serial(`${name}: a chain with its authority, and text around its parts, is accepted`, async t => {
    const edge = await make()
    const { chain, ...rest } = await issue('a.localhost', { version: '1' })
    await edge.syncCertificates([{ ...rest, chain: `subject=a\n${chain}\nsubject=root\n${(await issuer).root}` }])
    t.deepEqual(await table(edge), ['a.localhost 1'])
  })

  test.serial(`${name}: answers may be repeated and withdrawn, and odd ones are refused`, async t => {
    const edge = await make()
    const answers = { 'acme-challenge': 'a-thumb_print', 'berth-check': 'proof' }
    await edge.setAnswers(answers)
    await t.notThrowsAsync(edge.setAnswers(answers))
    await t.throwsAsync(edge.setAnswers({ ...answers, 'berth-check': 'a b' }), { instanceOf: RangeError })
    await t.notThrowsAsync(edge.setAnswers({ 'acme-challenge': null, 'berth-check': null }))
  })
}
