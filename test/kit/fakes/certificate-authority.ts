import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Authority, certifyKey, makeAuthority } from '../../../activities/certificates/authority.ts'
import { chainFacts, requestFits } from '../../../activities/certificates/chain.ts'
import {
  AuthorityError,
  type Authorization,
  type CertificateAuthority,
  type Challenge,
  type Order,
  type OrderRequest,
  type Problem,
  type Renewal,
} from '../../../activities/certificates/port.ts'
import { readRequest } from '../../../activities/certificates/request.ts'
import type { ChallengeKind } from '../../../policy/domains/challenges.ts'

interface FakeOrder extends Order {
  hostnames: readonly string[]
  chain: string | null
  /** Looks until what was requested is done. */
  looksLeft: number
}

type Step = keyof CertificateAuthority

/**
 * A certificate authority in memory, held to the same suite as the real ones. It validates by what `found` says is published, and can be
 * away, slow, or refuse.
 */
export class FakeAuthority {
  /** Every call, in order. */
  readonly calls: { step: Step; hostnames: readonly string[] }[] = []
  /** Each call of a step rejects with the next of these, and then succeeds again. */
  readonly refusals: Partial<Record<Step, AuthorityError[]>> = {}
  /** All calls reject with it, as long as it is set. */
  away: AuthorityError | null = null
  /** Milliseconds that each call takes, and looks until a validation or a certificate is done. */
  slow = { ms: 0, looks: 0 }
  /** Days for which certificates are valid, and when that begins. */
  validity = { days: 90, from: () => new Date() }
  /** What it says about the renewal of a certificate; undefined = two thirds into its life. */
  renewalOf: ((chain: string) => Renewal | null) | undefined
  readonly root: Promise<Authority> = makeAuthority(new Date(), 'domains')
  readonly orders = new Map<string, FakeOrder>()
  readonly #thumbprint = randomBytes(32).toString('base64url')
  readonly #issued = new Set<string>()

  /** `found`: what the authority finds where it looks for the answer of a challenge. */
  constructor(
    readonly found: (hostname: string, challenge: Challenge) => string | undefined | Promise<string | undefined>,
  ) {}

  open(): CertificateAuthority {
    return {
      order: request => this.#step('order', request.hostnames, async () => this.#place(request)),
      look: url => this.#ofOrder('look', url, order => shown(this.#proceed(order))),
      answer: (url, kind) => this.#ofOrder('answer', url, order => this.#validate(order, kind)),
      finalize: (url, csr) => this.#ofOrder('finalize', url, order => this.#issue(order, csr)),
      collect: (url, csr) => this.#ofOrder('collect', url, order => this.#deliver(order, csr)),
      renewal: chain => this.#step('renewal', [], async () => this.#renewal(chain)),
      thumbprint: async () => this.#thumbprint,
      caaNames: async () => ['fake-ca.test'],
    }
  }

  async #step<T>(step: Step, hostnames: readonly string[], work: () => Promise<T>): Promise<T> {
    this.calls.push({ step, hostnames })
    if (this.slow.ms > 0) await sleep(this.slow.ms)
    const refusal = this.away ?? this.refusals[step]?.shift()
    if (refusal) throw refusal
    return work()
  }

  #ofOrder<T>(step: Step, url: string, work: (order: FakeOrder) => T | Promise<T>): Promise<T> {
    const order = this.orders.get(url)
    return this.#step(step, order?.hostnames ?? [], async () => {
      if (!order) throw new AuthorityError('notFound', 'There is no such order.')
      return work(order)
    })
  }

  #place({ hostnames }: OrderRequest): Order {
    const url = `https://fake-ca.test/order/${randomBytes(8).toString('hex')}`
    const authorizations = hostnames.map(name => this.#authorization(name))
    const expiresAt = new Date(Date.now() + 86_400_000)
    const order = { url, status: 'pending', expiresAt, authorizations, problem: null } as const
    this.orders.set(url, { ...order, hostnames, chain: null, looksLeft: 0 })
    return shown(this.orders.get(url)!)
  }

  #authorization(name: string): Authorization {
    const isWildcard = name.startsWith('*.')
    const token = randomBytes(16).toString('base64url')
    const http = { kind: 'http-01', token, value: `${token}.${this.#thumbprint}` } as const
    const dns = { kind: 'dns-01', token, value: randomBytes(32).toString('base64url') } as const
    const challenges = isWildcard ? [dns] : [http, dns]
    return { hostname: name.replace(/^\*\./, ''), isWildcard, status: 'pending', challenges }
  }

  #proceed(order: FakeOrder): FakeOrder {
    if (order.looksLeft > 0) {
      order.looksLeft--
      return order
    }
    if (order.status === 'pending' && order.authorizations.every(({ status }) => status === 'valid'))
      order.status = 'ready'
    if (order.status === 'processing' && order.chain) order.status = 'valid'
    return order
  }

  async #validate(order: FakeOrder, kind: ChallengeKind): Promise<void> {
    for (const authorization of order.authorizations.filter(({ status }) => status === 'pending')) {
      const { hostname, challenges } = authorization
      const challenge = challenges.find(one => one.kind === kind)
      if (!challenge) throw new AuthorityError('unsupportedChallenge', `There is no ${kind} challenge for ${hostname}.`)
      const isProved = (await this.found(hostname, challenge)) === challenge.value
      Object.assign(authorization, { status: isProved ? 'valid' : 'invalid', challenges: [] })
      if (!isProved) refuse(order, { code: 'unauthorized', message: `${hostname} does not have the answer.` })
    }
    order.looksLeft = this.slow.looks
  }

  async #issue(order: FakeOrder, csr: Buffer): Promise<void> {
    const { status, hostnames } = this.#proceed(order)
    if (status === 'processing' || status === 'valid') return
    if (status !== 'ready') throw new AuthorityError('orderNotReady', `The order is ${status}.`)
    const request = await readRequest(csr)
    if (request?.names.toSorted().join() !== hostnames.toSorted().join())
      throw new AuthorityError('badCSR', 'The CSR has other names.')
    const root = await this.root
    const terms = { kind: 'server', commonName: hostnames[0]!, names: hostnames, addresses: [] } as const
    const { days, from } = this.validity
    const { certificate } = await certifyKey(root, { ...terms, days, publicKey: request.publicKey }, from())
    order.chain ??= certificate + root.certificate
    this.#issued.add(chainFacts(order.chain).serial)
    order.status = 'processing'
    order.looksLeft = this.slow.looks
  }

  #deliver({ status, chain }: FakeOrder, csr: Buffer): string {
    if (status !== 'valid' || !chain) throw new AuthorityError('orderNotReady', `The order is ${status}.`)
    if (!requestFits(csr, chain)) throw new AuthorityError('invalidAnswer', 'The certificate is of another key.')
    return chain
  }

  #renewal(chain: string): Renewal | null {
    if (this.renewalOf) return this.renewalOf(chain)
    const { serial, notBefore, notAfter } = chainFacts(chain)
    if (!this.#issued.has(serial))
      throw new AuthorityError('notFound', 'This authority has issued no such certificate.')
    const at = (share: number) => new Date(notBefore.getTime() + share * (notAfter.getTime() - notBefore.getTime()))
    return { window: { from: at(0.66), to: at(0.68) }, again: new Date(Date.now() + 21_600_000) }
  }
}

function refuse(order: FakeOrder, problem: Problem): void {
  Object.assign(order, { status: 'invalid', problem })
}

/** A copy: callers must not see later changes. */
const shown = ({ url, status, expiresAt, authorizations, problem }: FakeOrder): Order =>
  structuredClone({ url, status, expiresAt, authorizations, problem })
