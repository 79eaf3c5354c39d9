/** An archive. Times in ms since 1970. */
export interface Entry {
  account: string
  key: string
  digest: string
  at: number
  bytes: number
  usedAt: number
}

/** Everything about an archive but its use is in its name, so that both are there or neither. */
export const archiveName = ({ key, digest, at }: Entry): string => `${key}-${digest}-${at}.zip`

/** Null for a name that is none of an archive. */
export function entryOf(account: string, name: string, bytes: number, usedAt: number): Entry | null {
  const [, key, digest, at] = /^([0-9a-f]{64})-([0-9a-f]{64})-(\d{1,15})\.zip$/.exec(name) ?? []
  return key && digest && at ? { account, key, digest, at: Number(at), bytes, usedAt } : null
}

/** What the cache of a host holds, and what has to go for more: first what was not used for the longest time. */
export class Shelf {
  readonly #entries = new Map<string, Entry>()

  constructor(
    readonly maxBytes: number,
    /** Max bytes of one account. */
    readonly shareBytes: number,
  ) {}

  entries(): Entry[] {
    return [...this.#entries.values()]
  }

  find(account: string, key: string): Entry | null {
    return this.#entries.get(`${account}/${key}`) ?? null
  }

  /**
   * Adds an archive; returns that of the same key whose file has to be removed: the older one. One from the future is the older one: the
   * clock was wrong then, and no later result would ever replace it.
   */
  add(entry: Entry, now = Date.now()): Entry | null {
    const before = this.find(entry.account, entry.key)
    const madeAt = ({ at }: Entry) => (at > now ? -1 : at)
    if (before && madeAt(before) > madeAt(entry)) return entry
    this.#entries.set(`${entry.account}/${entry.key}`, entry)
    return before && archiveName(before) !== archiveName(entry) ? before : null
  }

  forget({ account, key }: Entry): void {
    this.#entries.delete(`${account}/${key}`)
  }

  /** Forgets archives other than `spared` until accounts and host are within their limits, and returns them: their files have to be removed. */
  makeRoom(spared?: Entry): Entry[] {
    const evicted: Entry[] = []
    const evict = (limit: number, account?: string) => {
      while (this.#bytes(account) > limit) {
        const [oldest] = this.#of(account)
          .filter(one => one !== spared)
          .sort((a, b) => a.usedAt - b.usedAt)
        if (!oldest) return
        this.forget(oldest)
        evicted.push(oldest)
      }
    }
    for (const account of new Set(this.entries().map(({ account }) => account))) evict(this.shareBytes, account)
    evict(this.maxBytes)
    return evicted
  }

  size(): { entries: number; bytes: number; maxBytes: number } {
    return { entries: this.#entries.size, bytes: this.#bytes(), maxBytes: this.maxBytes }
  }

  #of(account?: string): Entry[] {
    return this.entries().filter(one => account === undefined || one.account === account)
  }

  #bytes(account?: string): number {
    return this.#of(account).reduce((sum, { bytes }) => sum + bytes, 0)
  }
}
