import { credentialChecksSince, webhookAddressesBefore } from '../../db/accounts/credential-checks.ts'
import type { Db } from '../../db/database.ts'
import { credentialHash } from '../../policy/accounts/credentials.ts'

/** An API process of the previous version may keep running this long alongside a new one. */
const overlapMs = 3600_000
const maxTokenMs = 3600_000
const cachedMs = 60_000

/**
 * Upload tokens and webhook addresses that were issued before they contained a check. They still work, and made-up ones still cost no
 * statement of their own: such tokens expire within hours, and such addresses are all in memory.
 */
export class EarlierCredentials {
  readonly #db: Db
  #since: Promise<Date> | undefined
  #addresses: { until: number; hashes: Promise<Set<string>> } | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /** Whether an upload token without a check may still be valid. */
  async mayBeToken(now = Date.now()): Promise<boolean> {
    return now < (await this.#boundary()) + maxTokenMs
  }

  /** Whether this is a webhook's address without a check. */
  async isAddress(address: string, now = Date.now()): Promise<boolean> {
    return (await this.#hashes(now)).has(credentialHash(address).toString('hex'))
  }

  async #boundary(): Promise<number> {
    this.#since ??= credentialChecksSince(this.#db).catch(error => {
      this.#since = undefined
      throw error
    })
    return (await this.#since).getTime() + overlapMs
  }

  async #hashes(now: number): Promise<Set<string>> {
    const boundary = await this.#boundary()
    if (!this.#addresses || this.#addresses.until < now) {
      const hashes = webhookAddressesBefore(this.#db, new Date(boundary)).then(all => new Set(all))
      // None is added once the overlap is over.
      const cached = { until: now < boundary ? now + cachedMs : Number.POSITIVE_INFINITY, hashes }
      this.#addresses = cached
      hashes.catch(() => {
        if (this.#addresses === cached) this.#addresses = undefined
      })
    }
    return this.#addresses.hashes
  }
}
