/** An archive. Times in ms since 1970. */
export interface Entry {
  account: string
  /** The application whose tools' cache it is, which has one at most; null for the result of an install step. */
  app: string | null
  key: string
  digest: string
  at: number
  bytes: number
  usedAt: number
}

/** Everything about an archive but its use is in its name, so that both are there or neither. */
export const archiveName = ({ app, key, digest, at }: Entry): string =>
  app === null ? `${key}-${digest}-${at}.zip` : `${key}-${digest}-${at}-${app}.tgz`

/** Null for a name that is none of an archive. */
export function entryOf(account: string, name: string, bytes: number, usedAt: number): Entry | null {
  const [, key, digest, at, app = null] =
    /^([0-9a-f]{64})-([0-9a-f]{64})-(\d{1,15})(?:\.zip|-([\w-]{1,64})\.tgz)$/.exec(name) ?? []
  return key && digest && at ? { account, app, key, digest, at: Number(at), bytes, usedAt } : null
}

/** What an account finds an archive by: a new one of the same replaces it. */
const nameOf = ({ app, key }: Pick<Entry, 'app' | 'key'>): string => app ?? key

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

  /** The archive of a key, or of an application. */
  find(account: string, name: string): Entry | null {
    return this.#entries.get(`${account}/${name}`) ?? null
  }

  /**
   * Adds an archive; returns that of the same key or application whose file has to be removed: the older one. One from the future is the older one: the
   * clock was wrong then, and no later result would ever replace it.
   */
  add(entry: Entry, now = Date.now()): Entry | null {
    const before = this.find(entry.account, nameOf(entry))
    const madeAt = ({ at }: Entry) => (at > now ? -1 : at)
    if (before && madeAt(before) > madeAt(entry)) return entry
    this.#entries.set(`${entry.account}/${nameOf(entry)}`, entry)
    return before && archiveName(before) !== archiveName(entry) ? before : null
  }

  forget(entry: Entry): void {
    this.#entries.delete(`${entry.account}/${nameOf(entry)}`)
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
