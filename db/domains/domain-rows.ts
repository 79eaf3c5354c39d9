import type { ChallengeKind } from '../../policy/domains/challenges.ts'

/** A host name that applications of one account are reached at, or a name of the platform itself. */
export interface DomainRow {
  hostname: string
  /** Null: of the platform itself. */
  owner_id: string | null
  proved_at: Date | null
  /** It was proved, and neither of its records has been seen since then. */
  unproved_since: Date | null
  txt_seen: boolean
  cname_seen: boolean
  /** Whether requests for it arrive at the platform. */
  points: boolean
  /** Whether the platform's own name server answers the challenges of its certificates. */
  delegated: boolean
  looks: number
  looked_at: Date | null
  look_at: Date
  code: string | null
  message: string | null
  /** Orders of certificates that failed in a row. */
  orders_failed: number
  /** No certificate is ordered before. */
  order_at: Date
  loss_mailed_at: Date | null
  expiry_mails: number
  created_at: Date
}

/** What tells a row from another of the same name, which was released and claimed again. */
export type DomainClaim = Pick<DomainRow, 'hostname' | 'owner_id' | 'created_at'>

/** Whether a row is the one that was read before. */
export const isSameClaim = (row: DomainClaim, before: DomainClaim): boolean =>
  row.owner_id === before.owner_id && row.created_at.getTime() === before.created_at.getTime()

export interface CertificateRow {
  id: string
  hostname: string
  state: 'ordered' | 'current'
  /** Address of the authority's directory, or `local`. */
  authority: string
  order_url: string | null
  /** The easiest kind by which the name of an order can be proved (policy/domains/challenges.ts); null: it needs no proof. */
  challenge: ChallengeKind | null
  /** The answer of dns-01, of every order that can be proved by it. */
  dns_value: string | null
  order_ends_at: Date | null
  key_sealed: Buffer | null
  csr: Buffer | null
  chain: string | null
  issuer: string | null
  serial: string | null
  not_before: Date | null
  not_after: Date | null
  renew_at: Date | null
  /** Every live proxy has it since. */
  served_at: Date | null
  created_at: Date
}
