import { generateKeyPairSync } from 'node:crypto'
import acme, { type Client, type Order as LibraryOrder } from 'acme-client'
import type { z } from 'zod'
import { once } from '../../../lib/async/once.ts'
import { authorityRules } from '../../../policy/domains/authority-rules.ts'
import type { ChallengeKind } from '../../../policy/domains/challenges.ts'
import type { AcmeSettings } from '../../../policy/domains/domain-settings.ts'
import { chainFacts, requestFits } from '../chain.ts'
import { AuthorityError, type CertificateAuthority, type Challenge, type Order, type Renewal } from '../port.ts'
import { authorityCalls } from './calls.ts'
import { authorizationStatus, documents, orderProblem, retryAfterMs } from './problems.ts'

/** The account at an authority: its key, PEM, and its address there once it is registered. */
export interface AcmeAccount {
  privateKey: string
  url: string | null
}

/** Where accounts are stored, by directory. `keep` resolves to the account that is stored then: of two processes the first one wins. */
export interface AccountBook {
  find(directoryUrl: string): Promise<AcmeAccount | null>
  keep(directoryUrl: string, account: AcmeAccount): Promise<AcmeAccount>
  /** The address of an account; null = the authority does not know it any more. */
  register(directoryUrl: string, url: string | null): Promise<void>
}

export interface AcmeOptions {
  settings: Pick<AcmeSettings, 'directoryUrl' | 'email' | 'externalAccount'>
  /** PEM of further authorities that may sign the directory's certificate. */
  ca: string | null
  accounts: AccountBook
}

const isKind = (type: string): type is ChallengeKind => type === 'http-01' || type === 'dns-01'

/** An authority that speaks ACME (RFC 8555). */
export function acmeAuthority({ settings, ca, accounts }: AcmeOptions): CertificateAuthority {
  const { directoryUrl } = settings
  const call = authorityCalls(directoryUrl, ca)
  const readDirectory = async () => parsed(documents.directory, (await readPublic(directoryUrl)).data)

  const newClient = ({ privateKey, url }: AcmeAccount): Client => {
    const external = settings.externalAccount
    const bound = external ? { externalAccountBinding: { kid: external.keyId, hmacKey: external.hmacKey } } : {}
    return new acme.Client({
      directoryUrl,
      accountKey: privateKey,
      ...(url === null ? {} : { accountUrl: url }),
      ...bound,
    })
  }

  const storedAccount = async (): Promise<AcmeAccount> =>
    (await accounts.find(directoryUrl)) ?? accounts.keep(directoryUrl, { privateKey: accountKey(), url: null })

  /** The key is stored before it is registered, so that a repeated registration finds the same account. */
  const register = async (): Promise<Client> => {
    const account = await storedAccount()
    const client = newClient(account)
    if (account.url === null) {
      const contact = settings.email === null ? {} : { contact: [`mailto:${settings.email}`] }
      await call(() => client.createAccount({ termsOfServiceAgreed: true, ...contact }))
      await accounts.register(directoryUrl, client.getAccountUrl())
    }
    return client
  }

  let connect = once(register)

  /** Runs one call with the account, which is registered again if the authority has lost it. */
  const withClient = async <T>(work: (client: Client) => Promise<T>): Promise<T> => {
    const attempt = async () => {
      const client = await connect()
      return call(() => work(client))
    }
    return attempt().catch(async error => {
      if (!(error instanceof AuthorityError) || error.code !== 'accountDoesNotExist') throw error
      await accounts.register(directoryUrl, null)
      connect = once(register)
      return attempt()
    })
  }

  const place = async (client: Client, hostnames: readonly string[], replaces: string | undefined) => {
    const identifiers = hostnames.map(value => ({ type: 'dns', value }))
    return client.createOrder(replaces === undefined ? { identifiers } : Object.assign({ identifiers }, { replaces }))
  }

  return {
    async order({ hostnames, replaces }) {
      const directory = await call(readDirectory)
      const predecessor = directory.renewalInfo === undefined ? undefined : replaces
      const order = await withClient(client => place(client, hostnames, predecessor)).catch(error => {
        // It does not know the earlier certificate, or another order has replaced it: this one is an order like any other.
        const isAboutIt =
          error instanceof AuthorityError && /^(alreadyReplaced|malformed|notFound|unauthorized)$/.test(error.code)
        if (predecessor === undefined || !isAboutIt) throw error
        return withClient(client => place(client, hostnames, undefined))
      })
      return withClient(client => describe(client, order))
    },
    look: url => withClient(async client => describe(client, await client.getOrder({ url } as LibraryOrder))),
    answer: (url, kind) => withClient(client => answer(client, url, kind)),
    finalize: (url, csr) => withClient(client => finalize(client, url, csr)),
    collect: (url, csr) => withClient(client => collect(client, url, csr)),
    async renewal(chain) {
      const { ariId } = chainFacts(chain)
      return call(async () => {
        const { renewalInfo } = await readDirectory()
        if (renewalInfo === undefined || ariId === null) return null
        return readRenewal(`${renewalInfo.replace(/\/$/, '')}/${ariId}`)
      })
    },
    // Of the key alone, which never changes: proxies get it also while the authority is away.
    thumbprint: once(async () => {
      const client = newClient(await storedAccount())
      const answer = await client.getChallengeKeyAuthorization({ type: 'http-01', token: '' } as never)
      return answer.slice(1)
    }),
    async caaNames() {
      const { meta } = await call(readDirectory)
      return (meta?.caaIdentities ?? []).map(name => name.toLowerCase())
    },
  }
}

const accountKey = (): string =>
  generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey

function parsed<T extends z.ZodType>(shape: T, body: unknown): z.infer<T> {
  const { data, error } = shape.safeParse(body)
  if (error)
    throw new AuthorityError(
      'invalidAnswer',
      `The authority sent a document without a valid ${error.issues[0]?.path.join('.')}.`,
    )
  return data
}

/** An order with its authorizations, as both are now. */
async function read(client: Client, order: LibraryOrder) {
  const document = parsed(documents.order, order)
  const authorizations = await client.getAuthorizations(order)
  return { document, authorizations: authorizations.map(one => parsed(documents.authorization, one)) }
}

async function describe(client: Client, order: LibraryOrder): Promise<Order> {
  const { document, authorizations } = await read(client, order)
  const { status, expires } = document
  return {
    url: order.url,
    status,
    expiresAt: expires === undefined || Number.isNaN(Date.parse(expires)) ? null : new Date(expires),
    problem: status === 'invalid' ? orderProblem(document.error, authorizations) : null,
    authorizations: await Promise.all(
      authorizations.map(async one => ({
        hostname: one.identifier.value,
        isWildcard: one.wildcard === true,
        status: authorizationStatus(one),
        challenges: one.status === 'pending' ? await Promise.all(challengesOf(client, one)) : [],
      })),
    ),
  }
}

function challengesOf(client: Client, { challenges }: z.infer<typeof documents.authorization>): Promise<Challenge>[] {
  // Authorities shuffle them.
  const sorted = challenges.toSorted((one, other) => (one.type < other.type ? -1 : 1))
  return sorted.flatMap(({ type, token }) =>
    isKind(type)
      ? [client.getChallengeKeyAuthorization({ type, token } as never).then(value => ({ kind: type, token, value }))]
      : [],
  )
}

/** Only what is still pending: an authority refuses the answer to a challenge that it has validated. */
async function answer(client: Client, url: string, kind: ChallengeKind): Promise<void> {
  const { authorizations } = await read(client, await client.getOrder({ url } as LibraryOrder))
  for (const { identifier, challenges } of authorizations.filter(one => one.status === 'pending')) {
    const challenge = challenges.find(one => one.type === kind)
    if (!challenge)
      throw new AuthorityError(
        'unsupportedChallenge',
        `The authority offers no ${kind} challenge for ${identifier.value}.`,
      )
    if (challenge.status === 'pending') await client.completeChallenge(challenge as never)
  }
}

const hasCsr = (status: Order['status']) => status === 'processing' || status === 'valid'

async function finalize(client: Client, url: string, csr: Buffer): Promise<void> {
  const order = await client.getOrder({ url } as LibraryOrder)
  if (hasCsr(order.status)) return
  if (order.status !== 'ready') throw notReady(order)
  try {
    await client.finalizeOrder(order, pem('CERTIFICATE REQUEST', csr))
  } catch (error) {
    // An earlier attempt, which was not heard of, may have sent it meanwhile.
    const now = await client.getOrder({ url } as LibraryOrder).catch(() => order)
    if (!hasCsr(now.status)) throw error
  }
}

async function collect(client: Client, url: string, csr: Buffer): Promise<string> {
  const order = await client.getOrder({ url } as LibraryOrder)
  if (order.status !== 'valid') throw notReady(order)
  const chain: unknown = await client.getCertificate(order)
  if (typeof chain !== 'string' || !requestFits(csr, chain))
    throw new AuthorityError('invalidAnswer', 'The authority sent a certificate of another key.')
  return chain
}

const notReady = ({ status }: LibraryOrder) => new AuthorityError('orderNotReady', `The order is ${status}.`)

const pem = (label: string, der: Buffer): string =>
  [`-----BEGIN ${label}-----`, ...der.toString('base64').match(/.{1,64}/g)!, `-----END ${label}-----`, ''].join('\n')

/** A document that needs no signature. */
async function readPublic(url: string): Promise<{ data: unknown; retryAfter: string | undefined }> {
  const { status, data, headers } = await acme.axios.get(url)
  if (status !== 200) throw new Error('refused') // for a reason that the call has recorded
  return { data, retryAfter: headers['retry-after'] }
}

/** Renewal information (RFC 9773). */
async function readRenewal(url: string): Promise<Renewal | null> {
  const { data, retryAfter } = await readPublic(url)
  const { start, end } = parsed(documents.renewal, data).suggestedWindow
  const { minSeconds, usualSeconds, maxSeconds } = authorityRules.renewalAgain
  const seconds = (retryAfterMs(retryAfter) ?? usualSeconds * 1000) / 1000
  const again = new Date(Date.now() + Math.min(maxSeconds, Math.max(minSeconds, seconds)) * 1000)
  return start < end ? { window: { from: start, to: end }, again } : null
}
