import type { ChallengeKind } from '../../policy/domains/challenges.ts'
import type { RenewalWindow } from '../../policy/domains/times.ts'

/**
 * `pending`: challenges wait for answers. `ready`: all names are validated, and a CSR may be sent. `processing`: the certificate is being
 * issued. `valid`: it can be collected. `invalid`: another order is needed; `problem` says why.
 */
export type OrderStatus = 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'

/** Why an authority refused something, in its own words: a code such as `dns` or `rateLimited`, and a sentence. */
export interface Problem {
  code: string
  message: string
}

/** One way to prove one name. An authority demands one of them for each name. */
export interface Challenge {
  kind: ChallengeKind
  /** Last part of the path of an HTTP-01 challenge; for DNS-01 it has no use. */
  token: string
  /** What has to be found: the body for HTTP-01, the text of the TXT record for DNS-01. */
  value: string
}

export interface Authorization {
  /** The host name; that of a wildcard is without `*.`. */
  hostname: string
  isWildcard: boolean
  status: 'pending' | 'valid' | 'invalid'
  /** Of a pending authorization: those that the authority offers of the two kinds. */
  challenges: Challenge[]
}

export interface Order {
  /** By this the order is found again, by every process and for as long as the authority retains it. */
  url: string
  status: OrderStatus
  expiresAt: Date | null
  authorizations: Authorization[]
  problem: Problem | null
}

export interface OrderRequest {
  /** DNS names; `*.` before one for all names directly below it, which takes DNS-01. */
  hostnames: readonly string[]
  /** `ariId` of the certificate that this one follows: authorities do not count such an order against their limits. */
  replaces?: string
}

/** When the authority suggests a renewal; `again` = when to ask for it again, in an hour at the earliest and in a day at the latest. */
export interface Renewal {
  window: RenewalWindow
  again: Date
}

/**
 * The authority refused or does not answer. `code` is its problem's, or our own: `unreachable`, `timeout`, or `invalidAnswer` for what cannot be read.
 * Neither code nor message contains a key.
 */
export class AuthorityError extends Error {
  override name = 'AuthorityError'

  constructor(
    readonly code: string,
    message: string,
    /** When another try may succeed, if the authority said so. */
    readonly retryAfterMs: number | null = null,
  ) {
    super(message)
  }

  /** The same request can succeed later without any change. */
  get isTemporary(): boolean {
    return ['unreachable', 'timeout', 'invalidAnswer', 'serverInternal', 'badNonce'].includes(this.code)
  }
}

/**
 * Issues certificates. Each call is a step that a process may repeat after a crash: everything that one needs comes from the order's url.
 * Rejects with AuthorityError.
 */
export interface CertificateAuthority {
  /** A new order, or the one that is under way for the same names, as the authority decides. Store its url before the next step. */
  order(request: OrderRequest): Promise<Order>
  look(orderUrl: string): Promise<Order>
  /** Has the authority validate the challenges of this kind that are still pending. Repeating it has no further effect. */
  answer(orderUrl: string, kind: ChallengeKind): Promise<void>
  /** Sends the CSR (DER) of an order that is ready. Repeating it has no further effect. */
  finalize(orderUrl: string, csr: Buffer): Promise<void>
  /** The chain of a valid order for the key of this CSR (DER): PEM, leaf first. */
  collect(orderUrl: string, csr: Buffer): Promise<string>
  /** When the authority wants this certificate renewed; null if it does not say. */
  renewal(chain: string): Promise<Renewal | null>
  /** What follows token and dot in the body of every HTTP-01 answer to this authority, without a request to it; null = there is none. */
  thumbprint(): Promise<string | null>
  /** Names by which CAA records permit it; empty = it does not look at them. */
  caaNames(): Promise<string[]>
}
