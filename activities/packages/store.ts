import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir, rename, stat, unlink, utimes } from 'node:fs/promises'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { onDisk } from '../../lib/bytes.ts'
import { freeBytesOf } from '../../lib/folders/free-bytes.ts'
import { packageCacheRules, packageSlots } from '../../policy/packages/cache-rules.ts'
import type { Digest } from '../../policy/packages/documents.ts'
import { verified } from './content-hash.ts'

export interface StoreOptions {
  maxBytes: number
  /** Free space that it leaves on the disk. */
  freeBytes: number
}

interface Entry {
  name: string
  bytes: number
  /** In ms since 1970, as on the disk. */
  touchedAt: number
  /** Those who have opened its file: its bytes are on the disk while there are any. */
  readers: number
}

/** For whom work is done. Work for one that has left ends. */
export interface Asker {
  /** Has the same share of slots as any other. */
  subject: string
  signal: AbortSignal
}

/** A whole file, verified when it was opened. It stays until the caller closes it. */
export interface StoredFile {
  file: FileHandle
  bytes: number
  close(): Promise<void>
}

/** A file that is being written. */
export interface Draft {
  /** Reads what is written so far. */
  file: FileHandle
  write(piece: Uint8Array): Promise<void>
  /** Gives it its name; from then on it can be found. */
  commit(): Promise<void>
  /** Without `commit` before, nothing is left. */
  close(): Promise<void>
}

class NoRoom extends Error {
  override name = 'NoRoom'
}

const entryName = /^([0-9a-f]{64})-([0-9a-f]{64})$/
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW
const newFlags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** Files that are looked at together at the start. */
const atOnce = 64

/**
 * Files in the working folder, each under the key of its address and the digest of its content: both are there or neither, and a damaged one
 * differs from its name. What was not used for the longest time goes first.
 */
export class Store {
  readonly #options: StoreOptions
  /** In the order of their use. */
  readonly #entries = new Map<string, Entry>()
  readonly #reads = new FairSlots(packageSlots.reads)
  /** Removed files that are still read. */
  readonly #orphans = new Set<Entry>()
  #bytes = 0
  #drafts = 0

  private constructor(options: StoreOptions) {
    this.#options = options
  }

  /** Removes what a killed process left half-written, and all that is no entry. */
  static async open(options: StoreOptions): Promise<Store> {
    const store = new Store(options)
    const entries: [string, Entry][] = []
    await eachConcurrently(await readdir('.'), atOnce, async name => {
      const [, key] = entryName.exec(name) ?? []
      const stats = await stat(name).catch(() => null)
      if (key && stats?.isFile())
        entries.push([key, { name, bytes: onDisk(stats.size), touchedAt: stats.mtimeMs, readers: 0 }])
      else if (name !== keyFile) await unlink(name).catch(ignoreError('it takes no part in anything'))
    })
    entries.sort(([, a], [, b]) => a.touchedAt - b.touchedAt)
    for (const [key, entry] of entries) await store.#add(key, entry)
    await store.#makeRoom()
    return store
  }

  size(): { entries: number; bytes: number } {
    return { entries: this.#entries.size, bytes: this.#bytes }
  }

  /**
   * Opens a file that is as it was stored, and has the given digest; a damaged one is removed. Null when there is none. Each subject has
   * slots of its own. Rejects when none of them becomes free, or with the reason of the signal.
   */
  async find(key: string, expected: Digest | null, { subject, signal }: Asker): Promise<StoredFile | null> {
    if (!this.#entries.has(key)) return null
    const leave = await this.#reads.enterUntil(subject, deadlineSignal(packageCacheRules.slotSeconds * 1000, signal))
    return this.#verified(key, expected, signal).finally(leave)
  }

  async #verified(key: string, expected: Digest | null, signal: AbortSignal): Promise<StoredFile | null> {
    const entry = this.#entries.get(key)
    if (!entry) return null
    entry.readers++
    const file = await open(entry.name, readFlags).catch(() => null)
    const close = async () => {
      await file?.close()
      entry.readers--
      this.#discount(entry)
    }
    if (file) {
      const facts = await verified(file, entry.name, expected, signal).catch(() => null)
      if (facts?.isExpected && !signal.aborted) {
        await this.#use(key, entry)
        return { file, bytes: facts.bytes, close }
      }
      await close()
      signal.throwIfAborted()
      // It is what was verified when it was stored: what is expected now may be wrong instead.
      if (facts) return null
    } else await close()
    await this.#remove(key, entry)
    return null
  }

  /** Begins a file that grows up to `maxBytes`; others go for it. Rejects with NoRoom, also while it is written. */
  async draft(key: string, maxBytes: number): Promise<Draft> {
    if ((await freeBytesOf('.')) - Math.min(maxBytes, this.#options.maxBytes) < this.#options.freeBytes)
      throw new NoRoom('The disk of the host has too little free space.')
    const part = `${process.pid}-${++this.#drafts}.part`
    const file = await open(part, newFlags, 0o600)
    const hash = createHash('sha256')
    let [bytes, isStored] = [0, false]
    return {
      file,
      write: async piece => {
        bytes += piece.length
        this.#bytes += piece.length
        if (bytes > maxBytes) throw new NoRoom(`It has more than ${maxBytes} bytes.`)
        await this.#makeRoom()
        hash.update(piece)
        await file.writeFile(piece) // at its end, and all of it
      },
      commit: async () => {
        const name = `${key}-${hash.digest('hex')}`
        await rename(part, name)
        isStored = true
        this.#bytes -= bytes
        await this.#add(key, { name, bytes: onDisk(bytes), touchedAt: Date.now(), readers: 0 })
        await this.#makeRoom() // it takes whole blocks
      },
      close: async () => {
        await file.close()
        if (isStored) return
        this.#bytes -= bytes
        await unlink(part).catch(ignoreError('the next start removes it'))
      },
    }
  }

  async #use(key: string, entry: Entry): Promise<void> {
    if (this.#entries.get(key) !== entry) return
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    const now = Date.now()
    if (Math.abs(now - entry.touchedAt) < packageCacheRules.touchSeconds * 1000) return
    entry.touchedAt = now
    await utimes(entry.name, new Date(now), new Date(now)).catch(ignoreError('it is only removed earlier'))
  }

  async #add(key: string, entry: Entry): Promise<void> {
    const before = this.#entries.get(key)
    if (before && before.name !== entry.name) await this.#remove(key, before)
    else if (before) this.#forget(key, before)
    this.#entries.set(key, entry)
    this.#bytes += entry.bytes
  }

  #forget(key: string, entry: Entry): boolean {
    if (this.#entries.get(key) !== entry) return false
    this.#entries.delete(key)
    this.#orphans.add(entry)
    this.#discount(entry)
    return true
  }

  /** The bytes of a removed file are free once its last reader is done. */
  #discount(entry: Entry): void {
    if (entry.readers === 0 && this.#orphans.delete(entry)) this.#bytes -= entry.bytes
  }

  async #remove(key: string, entry: Entry): Promise<void> {
    if (this.#forget(key, entry)) await unlink(entry.name).catch(ignoreError('it is missing already'))
  }

  async #makeRoom(): Promise<void> {
    while (this.#bytes > this.#options.maxBytes || this.#entries.size > packageCacheRules.entries) {
      const oldest = this.#oldestUnread()
      if (!oldest) throw new NoRoom('The cache is too small for what is being downloaded and read.')
      await this.#remove(...oldest)
    }
  }

  #oldestUnread(): [string, Entry] | null {
    for (const [key, entry] of this.#entries) if (entry.readers === 0) return [key, entry]
    return null
  }
}

/** In the same folder: with it links to archives are signed. */
export const keyFile = 'link.key'
