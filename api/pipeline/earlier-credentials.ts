import { credentialChecksSince, webhookAddressesBefore } from '../../db/accounts/credential-checks.ts'
import type { Db } from '../../db/database.ts'
import { credentialHash } from '../../policy/accounts/credentials.ts'

/** An API process of the version before may go on this long beside a new one. */
const besideMs = 3600_000
const longestTokenMs = 3600_000
const keptMs = 60_000

/**
 * Upload tokens and webhook addresses from before they held a check. They go on to work, and what is made up still costs no
 * statement of its own: tokens of that time are over within hours, and its addresses are known by heart.
 */
export class EarlierCredentials {
  readonly #db: Db
  #since: Promise<Date> | undefined
  #addresses: { until: number; hashes: Promise<Set<string>> } | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /** Whether an upload token without a check may be one. */
  async mayBeToken(now = Date.now()): Promise<boolean> {
    return now < (await this.#boundary()) + longestTokenMs
  }

  /** Whether this is the address of a webhook, without a check. */
  async isAddress(address: string, now = Date.now()): Promise<boolean> {
    return (await this.#hashes(now)).has(credentialHash(address).toString('hex'))
  }

  async #boundary(): Promise<number> {
    this.#since ??= credentialChecksSince(this.#db).catch(error => {
      this.#since = undefined
      throw error
    })
    return (await this.#since).getTime() + besideMs
  }

  async #hashes(now: number): Promise<Set<string>> {
    const boundary = await this.#boundary()
    if (!this.#addresses || this.#addresses.until < now) {
      const hashes = webhookAddressesBefore(this.#db, new Date(boundary)).then(all => new Set(all))
      // None is added once the time beside each other is over.
      const known = { until: now < boundary ? now + keptMs : Number.POSITIVE_INFINITY, hashes }
      this.#addresses = known
      hashes.catch(() => {
        if (this.#addresses === known) this.#addresses = undefined
      })
    }
    return this.#addresses.hashes
  }
}
