import type { DomainLook } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'

/** Looks at a name from outside. */
export interface DomainSight {
  /** What DNS shows of its records, and whether the answer to the challenge of its order is there. */
  look(domain: DomainRow, ordered: CertificateRow | undefined): Promise<{ look: DomainLook; answerSeen: boolean }>
  /** Why CAA records of the name refuse an authority with these names, in words; null: they do not. */
  caaRefusal(hostname: string, caaNames: readonly string[]): Promise<string | null>
}
