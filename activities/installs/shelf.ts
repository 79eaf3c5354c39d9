/** An archive. Times in ms since 1970. */
export interface Entry {
  account: string
  key: string
  digest: string
  at: number
  bytes: number
  usedAt: number
}

/** An archive that is being written: what it needs so far. */
interface Writing {
  account: string
  bytes: number
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
  readonly #writing = new Set<Writing>()

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

  /** Adds an archive; returns the older one of the same key, whose file has to be removed. */
  add(entry: Entry): Entry | null {
    const before = this.find(entry.account, entry.key)
    if (before && before.at > entry.at) return entry
    this.#entries.set(`${entry.account}/${entry.key}`, entry)
    return before
  }

  forget({ account, key }: Entry): void {
    this.#entries.delete(`${account}/${key}`)
  }

  begin(account: string): Writing {
    const writing = { account, bytes: 0 }
    this.#writing.add(writing)
    return writing
  }

  end(writing: Writing): void {
    this.#writing.delete(writing)
  }

  /**
   * Forgets archives until account and host are within their limits again, and returns them: their files have to be removed. Throws when
   * one that is being written exceeds the share of its account alone.
   */
  makeRoom(account: string | null): Entry[] {
    const evicted: Entry[] = []
    const evict = (entry: Entry | undefined): boolean => {
      if (!entry) return false
      this.forget(entry)
      evicted.push(entry)
      return true
    }
    if (account !== null)
      while (this.#bytes(account) > this.shareBytes)
        if (!evict(this.#oldest(account))) throw new Error('It is larger than the share of one account.')
    while (this.#bytes() > this.maxBytes) if (!evict(this.#oldest())) break
    return evicted
  }

  size(): { entries: number; bytes: number; maxBytes: number } {
    return { entries: this.#entries.size, bytes: this.#bytes(), maxBytes: this.maxBytes }
  }

  #of<T extends Writing>(all: Iterable<T>, account?: string): T[] {
    return [...all].filter(one => account === undefined || one.account === account)
  }

  #bytes(account?: string): number {
    return [...this.#of(this.#entries.values(), account), ...this.#of(this.#writing, account)].reduce(
      (sum, { bytes }) => sum + bytes,
      0,
    )
  }

  #oldest(account?: string): Entry | undefined {
    return this.#of(this.#entries.values(), account).sort((a, b) => a.usedAt - b.usedAt)[0]
  }
}
