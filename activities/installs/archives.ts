import { constants } from 'node:fs'
import { type FileHandle, link, mkdir, open, readdir, rename, rm, rmdir, stat, unlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { unlessMissing } from '../../lib/folders/error-codes.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { newId } from '../../policy/ids.ts'
import { archiveName, type Entry, entryOf, type Shelf } from './shelf.ts'

const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW
const newFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** The files behind a shelf: a folder for each account below `root`. */
export class Archives {
  /** Paths of what is being written or held, which are no archives. */
  readonly #busy = new Set<string>()
  readonly #lock = new KeyedLock()

  constructor(
    readonly root: string,
    readonly shelf: Shelf,
  ) {}

  #pathOf(entry: Entry): string {
    return join(this.root, entry.account, archiveName(entry))
  }

  /** One change of names at a time, so that folder and shelf say the same. */
  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    return this.#lock.run(this.root, work)
  }

  async #remove(...entries: Entry[]): Promise<void> {
    for (const entry of entries) await unlink(this.#pathOf(entry)).catch(unlessMissing)
  }

  /** The shelf learns what the folder holds, and what is no archive is removed. */
  async load(): Promise<void> {
    await mkdir(this.root, { recursive: true, mode: 0o700 })
    await this.#reconcile()
  }

  async #reconcile(): Promise<void> {
    const { shelf, root } = this
    for (const entry of shelf.entries())
      if (!(await stat(this.#pathOf(entry)).catch(unlessMissing))) shelf.forget(entry)
    for (const one of await readdir(root, { withFileTypes: true }))
      if (one.isDirectory()) await this.#loadAccount(one.name)
    await this.#remove(...shelf.makeRoom())
  }

  async #loadAccount(account: string): Promise<void> {
    for (const name of await readdir(join(this.root, account))) {
      const path = join(this.root, account, name)
      const stats = this.#busy.has(path) ? null : await stat(path).catch(unlessMissing)
      if (!stats) continue
      const entry = entryOf(account, name, stats.size, stats.mtimeMs)
      const shelved = entry && this.shelf.find(account, entry.app ?? entry.key)
      if (shelved && archiveName(shelved) === name) continue
      // A newer one replaces the older one, which a killed process left.
      const replaced = entry ? this.shelf.add(entry) : null
      if (replaced) await this.#remove(replaced)
      if (!entry) await rm(path, { recursive: true, force: true })
    }
  }

  /** Opens an archive, and counts as its use; null when its file is missing. */
  async open(entry: Entry): Promise<FileHandle | null> {
    const file = await open(this.#pathOf(entry), readFlags).catch(unlessMissing)
    // Another process may have removed it, such as the one that acted as this host before.
    if (file) await this.touch(entry)
    else this.shelf.forget(entry)
    return file
  }

  async touch(entry: Entry): Promise<void> {
    entry.usedAt = Date.now()
    const now = new Date(entry.usedAt)
    await utimes(this.#pathOf(entry), now, now).catch(ignoreError('it is only removed earlier'))
  }

  async drop(account: string, name: string): Promise<void> {
    await this.#exclusively(async () => {
      const entry = this.shelf.find(account, name)
      if (!entry) return
      this.shelf.forget(entry)
      await this.#remove(entry)
    })
  }

  /**
   * Gives an archive a further name that no eviction takes away, until `release`; counts as its use. Null when its file is missing. A
   * process that is killed leaves the name, which the next one removes.
   */
  async hold(entry: Entry): Promise<{ path: string; release(): Promise<void> } | null> {
    const path = join(this.root, entry.account, `${newId()}.held`)
    const release = async () => {
      this.#busy.delete(path)
      await rm(path, { force: true }).catch(ignoreError('the next round removes it'))
    }
    this.#busy.add(path)
    const isThere = await link(this.#pathOf(entry), path)
      .then(() => true, unlessMissing)
      .catch(async error => {
        await release()
        throw error
      })
    if (isThere) {
      await this.touch(entry)
      return { path, release }
    }
    await release()
    this.shelf.forget(entry)
    return null
  }

  /** Adds what `fill` writes; nothing of it remains when that rejects, or the signal has given it up by then. */
  async add(
    account: string,
    mode: number,
    fill: (file: FileHandle) => Promise<Entry>,
    signal: AbortSignal,
  ): Promise<void> {
    const path = join(this.root, account, `${newId()}.new`)
    try {
      this.#busy.add(path)
      const file = await this.#exclusively(async () => {
        await mkdir(join(this.root, account), { mode: 0o700, recursive: true })
        return open(path, newFlags, mode)
      })
      const entry = await fill(file).finally(() => file.close())
      await this.#exclusively(async () => {
        signal.throwIfAborted()
        await this.#putOnShelf(path, entry)
      })
    } finally {
      await rm(path, { force: true })
      this.#busy.delete(path)
    }
  }

  async #putOnShelf(path: string, entry: Entry): Promise<void> {
    await rename(path, this.#pathOf(entry))
    const replaced = this.shelf.add(entry)
    if (replaced) await this.#remove(replaced)
    await this.#remove(...this.shelf.makeRoom(entry))
    await syncFolder(join(this.root, entry.account))
  }

  accounts(): Promise<string[]> {
    return readdir(this.root)
  }

  /** Compares the shelf with its folder, and removes these archives and folders without any. */
  async sweep(accounts: readonly string[], isUnused: (entry: Entry) => boolean): Promise<void> {
    await this.#exclusively(async () => {
      await this.#reconcile()
      const unused = this.shelf.entries().filter(isUnused)
      for (const entry of unused) this.shelf.forget(entry)
      await this.#remove(...unused)
      for (const account of accounts) await rmdir(join(this.root, account)).catch(ignoreError('it has archives'))
    })
  }
}
