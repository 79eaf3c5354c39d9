import { onDisk } from '../../lib/bytes.ts'

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

/** Archives, and the bytes that they take of the disk. */
interface Sum {
  entries: number
  bytes: number
}

const exceeds = (sum: Sum, max: Sum): boolean => sum.bytes > max.bytes || sum.entries > max.entries

/** What the cache of a host holds, and what has to go for more: first what was not used for the longest time. */
export class Shelf {
  readonly #entries = new Map<string, Entry>()
  readonly #sum: Sum = { entries: 0, bytes: 0 }
  readonly #ofAccounts = new Map<string, Sum>()
  /** Max of one account. */
  readonly share: Sum

  constructor(
    readonly max: Sum,
    /** Part of it that one account may use. */
    accountShare: number,
  ) {
    this.share = { entries: Math.floor(max.entries * accountShare), bytes: max.bytes * accountShare }
  }

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
    if (before) this.forget(before)
    this.#entries.set(`${entry.account}/${nameOf(entry)}`, entry)
    this.#count(entry, 1)
    return before && archiveName(before) !== archiveName(entry) ? before : null
  }

  forget(entry: Entry): void {
    if (!this.#has(entry)) return
    this.#entries.delete(`${entry.account}/${nameOf(entry)}`)
    this.#count(entry, -1)
  }

  /** Forgets archives other than `spared` until accounts and host are within their limits, and returns them: their files have to be removed. */
  makeRoom(spared?: Entry): Entry[] {
    const isFull = exceeds(this.#sum, this.max)
    if (!isFull && ![...this.#ofAccounts.values()].some(sum => exceeds(sum, this.share))) return []
    const oldestFirst = this.entries()
      .filter(one => one !== spared)
      .sort((a, b) => a.usedAt - b.usedAt)
    const evicted: Entry[] = []
    const evictWhile = (isOver: (entry: Entry) => boolean) => {
      for (const entry of oldestFirst) {
        if (!this.#has(entry) || !isOver(entry)) continue
        this.forget(entry)
        evicted.push(entry)
      }
    }
    evictWhile(({ account }) => exceeds(this.#ofAccounts.get(account)!, this.share))
    evictWhile(() => exceeds(this.#sum, this.max))
    return evicted
  }

  size(): Sum & { maxBytes: number } {
    return { ...this.#sum, maxBytes: this.max.bytes }
  }

  /** Whether it is this archive that is found by its name, and not a later one. */
  #has(entry: Entry): boolean {
    return this.find(entry.account, nameOf(entry)) === entry
  }

  #count({ account, bytes }: Entry, entries: 1 | -1): void {
    const ofAccount = this.#ofAccounts.get(account) ?? { entries: 0, bytes: 0 }
    this.#ofAccounts.set(account, ofAccount)
    for (const sum of [this.#sum, ofAccount]) {
      sum.entries += entries
      sum.bytes += entries * onDisk(bytes)
    }
    if (ofAccount.entries === 0) this.#ofAccounts.delete(account)
  }
}
