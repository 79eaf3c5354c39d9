import { once } from 'node:events'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import test, { type ExecutionContext } from 'ava'
import { type AccountBook, type AcmeAccount, acmeAuthority } from '../../../activities/certificates/acme/acme.ts'
import { type Authority, issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import { AuthorityError, type CertificateAuthority } from '../../../activities/certificates/port.ts'
import { newRequest } from '../../../activities/certificates/request.ts'

/** An account that was registered before, whose key must appear nowhere. */
const account: AcmeAccount = { privateKey: '', url: null }
const accounts: AccountBook = { find: async () => account, keep: async () => account, register: async () => {} }
let root: Authority
test.before(async () => {
  root = await makeAuthority()
  account.privateKey = (await newRequest(['account.test'])).privateKey
})

type Answer = (request: IncomingMessage, response: ServerResponse, url: string) => void

/** An https server at an address of loopback, signed by the root. */
async function serve(t: ExecutionContext, address: string, listener: RequestListener): Promise<string> {
  const terms = { kind: 'server', commonName: 'ca', names: ['localhost'], addresses: [address], days: 1 } as const
  const { certificate, privateKey } = await issueCertificate(root, terms)
  const server: Server = createServer({ cert: certificate, key: privateKey }, listener).listen(0, address)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `https://${address}:${(server.address() as AddressInfo).port}`
}

/** An authority of which a test changes some answers by path; it names itself for all resources. */
async function authorityWith(t: ExecutionContext, answers: Record<string, Answer>, directory: object = {}) {
  let url = ''
  const paths: string[] = []
  url = await serve(t, '127.0.0.1', (request, response) => {
    const path = request.url ?? ''
    paths.push(path)
    request.resume()
    response.setHeader('replay-nonce', `nonce${paths.length}`)
    const resources = { newNonce: `${url}/nonce`, newAccount: `${url}/account`, newOrder: `${url}/order` }
    const own = answers[path]
    if (own) own(request, response, url)
    else if (path === '/directory') json(response, 200, { ...resources, ...directory })
    else if (path === '/account') json(response, 201, { status: 'valid' }, { location: `${url}/account/1` })
    else response.writeHead(path === '/nonce' ? 200 : 404).end()
  })
  const settings = { directoryUrl: `${url}/directory`, email: null, externalAccount: null }
  const authority = acmeAuthority({ settings, ca: root.certificate, accounts })
  return { authority, paths }
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

const order = (url: string, changes: object = {}) => ({
  ...{ status: 'pending', identifiers: [{ type: 'dns', value: 'a.test' }] },
  ...{ authorizations: [`${url}/authorization`], finalize: `${url}/finalize`, ...changes },
})
const answerOrder =
  (changes: (url: string) => object): Answer =>
  (_, response, url) =>
    json(response, 201, order(url, changes(url)), { location: `${url}/orders/1` })

/** How an order is refused. Nothing of the account's key may be in it. */
async function refusal(t: ExecutionContext, authority: CertificateAuthority): Promise<AuthorityError> {
  const error = await t.throwsAsync(authority.order({ hostnames: ['a.test'] }), { instanceOf: AuthorityError })
  const secret = account.privateKey.split('\n')[1]!
  t.false(inspect(error, { depth: 20, showHidden: true }).includes(secret))
  t.false(error.message.includes('-----'))
  return error as AuthorityError
}

test('no request goes to a private address, another protocol or another place than was named', async t => {
  const visited: string[] = []
  const inside = await serve(t, '127.0.0.2', (request, response) => {
    visited.push(request.url ?? '')
    response.end('{}')
  })
  const plain = inside.replace('https', 'http')
  const named = (
    await serve(t, '127.0.0.1', (_, response) => response.end(visited.push('by name').toString()))
  ).replace('127.0.0.1', 'localhost')
  for (const authorization of [`${inside}/x`, `${plain}/x`, `${named}/x`, 'https://[::1]:1/x', 'file:///etc/passwd']) {
    const { authority } = await authorityWith(t, { '/order': answerOrder(() => ({ authorizations: [authorization] })) })
    t.regex((await refusal(t, authority)).code, /^(invalidAnswer|unreachable)$/, authorization)
  }
  const { authority } = await authorityWith(t, {
    '/order': answerOrder(() => ({})),
    '/authorization': (_, response) => response.writeHead(302, { location: `${inside}/redirected` }).end(),
  })
  t.is((await refusal(t, authority)).code, 'invalidAnswer')
  t.deepEqual(visited, [])
})

test('a refusal has its code, its sentence in bounds, and when to come again', async t => {
  const problem = (type: string, detail: string, subproblems: object[] = []) => ({
    type: `urn:ietf:params:acme:error:${type}`,
    detail,
    subproblems,
  })
  const refusing = (status: number, body: unknown, headers = {}) =>
    authorityWith(t, { '/order': (_, response) => json(response, status, body, headers) })
  const limited = await refusal(
    t,
    (await refusing(429, problem('rateLimited', 'Too many.'), { 'retry-after': '120' })).authority,
  )
  t.like(limited, { code: 'rateLimited', message: 'Too many.', retryAfterMs: 120_000, isTemporary: false })
  const long = problem('rejectedIdentifier', `Line\none \u202e${'x'.repeat(1000)}`, [{ detail: 'sub' }])
  const rejected = await refusal(t, (await refusing(400, long)).authority)
  t.is(rejected.code, 'rejectedIdentifier')
  t.true(rejected.message.length === 500 && !/[\n\u202e]/.test(rejected.message))
  const compound = problem('compound', 'Several.', [{ detail: 'First.' }, { detail: 'Second.' }])
  t.is((await refusal(t, (await refusing(400, compound)).authority)).message, 'Several. First. Second.')
  t.like(await refusal(t, (await refusing(503, 'busy')).authority), { code: 'serverInternal', isTemporary: true })
  const refused = { code: 'malformed', isTemporary: false }
  t.like(await refusal(t, (await refusing(400, { type: 'x'.repeat(100), detail: 7 })).authority), refused)
  t.like(await refusal(t, (await refusing(400, problem('malformed', 'No such order.'))).authority), refused)
})

test('nothing is repeated behind the caller’s back, but a refused nonce', async t => {
  let nonces = 0
  const { authority, paths } = await authorityWith(t, {
    '/order': (_, response) =>
      nonces++ < 2
        ? json(response, 400, { type: 'urn:ietf:params:acme:error:badNonce', detail: 'again' })
        : json(response, 500, { type: 'urn:ietf:params:acme:error:serverInternal', detail: 'down' }),
  })
  t.is((await refusal(t, authority)).code, 'serverInternal')
  t.is(paths.filter(path => path === '/order').length, 3)
  const closing = await authorityWith(t, { '/order': request => void request.socket.destroy() })
  t.is((await refusal(t, closing.authority)).code, 'unreachable')
  t.is(closing.paths.filter(path => path === '/order').length, 1)
})

test('answers of a wrong form or size are no answers', async t => {
  const forms: [what: string, answers: Record<string, Answer>][] = [
    ['status', { '/order': answerOrder(() => ({ status: 'great' })) }],
    [
      'many',
      { '/order': answerOrder(url => ({ authorizations: Array.from({ length: 101 }, () => `${url}/authorization`) })) },
    ],
    [
      'no authorization',
      { '/order': answerOrder(() => ({})), '/authorization': (_, response) => json(response, 200, []) },
    ],
    ['no location', { '/order': (_, response, url) => json(response, 201, order(url)) }],
    ['large', { '/order': (_, response) => response.writeHead(201).end(`"${'x'.repeat(2_000_000)}"`) }],
    ['no directory', { '/directory': (_, response) => json(response, 200, []) }],
  ]
  for (const [what, answers] of forms) {
    const { authority } = await authorityWith(t, answers)
    t.like(await refusal(t, authority), { code: 'invalidAnswer', isTemporary: true }, what)
  }
})
