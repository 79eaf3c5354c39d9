import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import test from 'ava'
import { type AccountBook, type AcmeAccount, acmeAuthority } from '../../../activities/certificates/acme/acme.ts'
import { chainFacts } from '../../../activities/certificates/chain.ts'
import { AuthorityError, type CertificateAuthority, type Challenge } from '../../../activities/certificates/port.ts'
import { newRequest } from '../../../activities/certificates/request.ts'
import { certificateAuthorityContract } from '../../contracts/certificate-authority.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { TestDns } from '../../kit/servers/dns.ts'
import { type Origin, startOrigin } from '../../kit/servers/origin.ts'
import { Pebble } from '../../kit/servers/pebble.ts'

let dns: TestDns
let web: Origin
let pebble: Pebble
/** Answers of HTTP-01 by path. */
const answers = new Map<string, string>()

/** Accounts in memory, as the table of a database. */
function accountBook(): AccountBook & { all: Map<string, AcmeAccount>; written: string[] } {
  const all = new Map<string, AcmeAccount>()
  const written: string[] = []
  return {
    all,
    written,
    find: async directory => all.get(directory) ?? null,
    async keep(directory, account) {
      written.push('keep')
      if (!all.has(directory)) all.set(directory, account)
      return all.get(directory)!
    },
    async register(directory, url) {
      written.push(url === null ? 'forget' : 'register')
      all.set(directory, { ...all.get(directory)!, url })
    },
  }
}
const shared = accountBook()

function open(changes: { accounts?: AccountBook; settings?: object; of?: Pebble } = {}) {
  const of = changes.of ?? pebble
  const settings = {
    directoryUrl: of.directoryUrl,
    email: 'ops@example.com',
    externalAccount: null,
    ...changes.settings,
  }
  return acmeAuthority({ settings, ca: of.ca, accounts: changes.accounts ?? shared })
}

function publish(hostname: string, { kind, token, value }: Challenge): void {
  if (kind === 'http-01') {
    dns.set(hostname, 'A', '127.0.0.1')
    answers.set(`/.well-known/acme-challenge/${token}`, value)
    return
  }
  const name = `_acme-challenge.${hostname}`
  texts.set(name, [...(texts.get(name) ?? []), value])
  dns.set(name, 'TXT', ...texts.get(name)!)
}
const texts = new Map<string, string[]>()

test.before(async () => {
  dns = await TestDns.start()
  web = await startOrigin((request, response) => {
    const answer = answers.get(request.url ?? '')
    response.writeHead(answer === undefined ? 404 : 200).end(answer)
  })
  pebble = await Pebble.start({ dns: dns.address, httpPort: web.port, blocked: ['blocked.test'] })
})
test.after.always(() => Promise.all([pebble?.remove(), dns?.stop(), web?.stop()]))

certificateAuthorityContract(test.serial, 'acme', () => ({ open, publish }), { asksForProof: true })

/** All steps of a certificate by HTTP-01. */
async function certify(hostname: string, authority: CertificateAuthority, csr?: Buffer): Promise<string> {
  const order = await authority.order({ hostnames: [hostname] })
  for (const challenge of order.authorizations[0]!.challenges.filter(({ kind }) => kind === 'http-01'))
    publish(hostname, challenge)
  await authority.answer(order.url, 'http-01')
  const own = csr ?? (await newRequest([hostname])).csr
  await comesTrue(async () => (await authority.look(order.url)).status === 'ready')
  await authority.finalize(order.url, own)
  await comesTrue(async () => (await authority.look(order.url)).status === 'valid')
  return authority.collect(order.url, own)
}

test.serial('the account key is stored before it is registered, and registered once', async t => {
  const accounts = accountBook()
  await open({ accounts }).thumbprint()
  await open({ accounts }).order({ hostnames: ['account.test'] })
  t.deepEqual(accounts.written, ['keep', 'register'])
  const { privateKey, url } = accounts.all.get(pebble.directoryUrl)!
  t.regex(privateKey, /^-----BEGIN PRIVATE KEY-----/)
  // A process that was killed after the registration repeats it, and finds the same account.
  accounts.all.set(pebble.directoryUrl, { privateKey, url: null })
  await open({ accounts }).order({ hostnames: ['account.test'] })
  t.is(accounts.all.get(pebble.directoryUrl)!.url, url)
})

test.serial('a request whose base64 fills its last line is sent like any other', async t => {
  const fills = ({ length }: Buffer) => Math.ceil(length / 3) % 16 === 0
  for (let n = 1; ; n++) {
    const hostname = `${'a'.repeat((n % 40) + 1)}.test`
    const { csr } = await newRequest([hostname])
    if (!fills(csr)) continue
    t.deepEqual(chainFacts(await certify(hostname, open(), csr)).names, [hostname])
    break
  }
})

test.serial('an account that needs another one is bound to it, and refused without', async t => {
  const hmacKey = randomBytes(32).toString('base64url')
  const strict = await Pebble.start({ dns: dns.address, httpPort: web.port, externalAccounts: { 'kid-1': hmacKey } })
  t.teardown(() => strict.remove())
  const openStrict = (externalAccount: object | null) =>
    open({ of: strict, accounts: accountBook(), settings: { externalAccount } }).order({ hostnames: ['eab.test'] })
  t.is((await openStrict({ keyId: 'kid-1', hmacKey })).status, 'pending')
  await t.throwsAsync(openStrict(null), { code: 'externalAccountRequired' })
  const wrong = await t.throwsAsync(openStrict({ keyId: 'kid-1', hmacKey: 'c2VjcmV0LXNlY3JldC1zZWNyZXQ' }), {
    instanceOf: AuthorityError,
  })
  t.false(inspect(wrong, { depth: 20 }).includes('c2VjcmV0'))
})

test.serial('an account is registered again with an authority that has lost everything', async t => {
  const other = await Pebble.start({ dns: dns.address, httpPort: web.port })
  t.teardown(() => other.remove())
  const accounts = accountBook()
  const authority = open({ of: other, accounts })
  const { url } = await authority.order({ hostnames: ['lost.test'] })
  await other.stop()
  const away = await t.throwsAsync(authority.look(url), { code: 'unreachable' })
  t.true((away as AuthorityError).isTemporary)
  await other.start()
  await t.throwsAsync(authority.look(url), { code: 'notFound' })
  t.is((await authority.order({ hostnames: ['lost.test'] })).status, 'pending')
  t.deepEqual(accounts.written, ['keep', 'register', 'forget', 'register'])
})

test.serial('a directory whose certificate nobody signed is not trusted', async t => {
  const settings = { directoryUrl: pebble.directoryUrl, email: null, externalAccount: null }
  const authority = acmeAuthority({ settings, ca: null, accounts: accountBook() })
  await t.throwsAsync(authority.order({ hostnames: ['a.test'] }), { code: 'unreachable' })
})

test.serial('a name that the authority refuses is refused in its words', async t => {
  const error = await t.throwsAsync(open().order({ hostnames: ['blocked.test'] }), { instanceOf: AuthorityError })
  t.is((error as AuthorityError).code, 'rejectedIdentifier')
  t.regex(error.message, /blocked\.test|policy/i)
  t.false((error as AuthorityError).isTemporary)
})

test.serial('the authority says when to renew, and what CAA records call it', async t => {
  const chain = await certify('ari.test', open())
  const [start, end] = ['2027-01-01T00:00:00Z', '2027-01-02T00:00:00Z']
  await pebble.setRenewal(chain, { suggestedWindow: { start, end } })
  const renewal = await open().renewal(chain)
  t.deepEqual(renewal?.window, { from: new Date(start), to: new Date(end) })
  const hours = ((renewal?.again.getTime() ?? 0) - Date.now()) / 3_600_000
  t.true(hours > 5.9 && hours < 6.1)
  await pebble.setRenewal(chain, { suggestedWindow: { start: end, end: start } })
  t.is(await open().renewal(chain), null)
  await pebble.setRenewal(chain, { suggestedWindow: 'soon' })
  await t.throwsAsync(open().renewal(chain), { code: 'invalidAnswer' })
  t.deepEqual(await open().caaNames(), ['pebble.letsencrypt.org'])
})

test.serial('a challenge is answered through a delegation', async t => {
  dns.set('_acme-challenge.delegated.test', 'CNAME', 'f00d.acme.test')
  const order = await open().order({ hostnames: ['delegated.test'] })
  dns.set('f00d.acme.test', 'TXT', order.authorizations[0]!.challenges.find(({ kind }) => kind === 'dns-01')!.value)
  await open().answer(order.url, 'dns-01')
  await comesTrue(async () => (await open().look(order.url)).status === 'ready')
  t.pass()
})
