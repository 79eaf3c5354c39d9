import { setMaxListeners } from 'node:events'
import { constants } from 'node:fs'
import {
  type FileHandle,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  unlink,
  utimes,
} from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { installRules } from '../../policy/hosts/installs.ts'
import { newId } from '../../policy/ids.ts'
import type { Snapshots } from '../snapshots/port.ts'
import type { InstallCache, ResultToKeep } from './port.ts'
import { archiveName, type Entry, entryOf, Shelf } from './shelf.ts'
import { packingSlots } from './slots.ts'

export interface InstallCacheOptions {
  /** Only this host writes to it. */
  root: string
  maxBytes: number
  snapshots: Pick<Snapshots, 'make'>
  /** Free space that it leaves on the disk. */
  freeBytes?: number
  warn?(facts: object, message: string): void
}

const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW
const newFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
const partial = '.new'
/** Names of accounts, of which a folder is named. */
const accountName = /^[\w-]{1,64}$/
const dayMs = 86_400_000

/** Opens the archives below `root`, and removes what a killed process left half-written: only the process that acts as the host may. */
export async function openInstallCache(options: InstallCacheOptions): Promise<InstallCache> {
  const { root, maxBytes, snapshots, freeBytes = installRules.freeBytes, warn } = options
  const shelf = new Shelf(maxBytes, maxBytes * installRules.accountShare)
  const ending = new AbortController()
  setMaxListeners(0, ending.signal) // one for each result that waits
  const underWay = new Set<Promise<void>>()
  /** Paths of what is being written. */
  const writing = new Set<string>()
  const lock = new KeyedLock()
  /** One change of names at a time, so that folder and shelf say the same. */
  const exclusively = <T>(work: () => Promise<T>): Promise<T> => lock.run(root, work)
  const pathOf = (entry: Entry) => join(root, entry.account, archiveName(entry))
  const remove = async (...entries: Entry[]) => {
    for (const entry of entries) await unlink(pathOf(entry)).catch(unlessMissing)
  }

  await mkdir(root, { recursive: true, mode: 0o700 })
  await reconcile()

  /** The shelf learns what the folder holds, and what is no archive is removed. */
  async function reconcile(): Promise<void> {
    for (const entry of shelf.entries()) if (!(await stat(pathOf(entry)).catch(unlessMissing))) shelf.forget(entry)
    for (const one of await readdir(root, { withFileTypes: true })) if (one.isDirectory()) await load(one.name)
    await remove(...shelf.makeRoom())
  }

  async function load(account: string): Promise<void> {
    for (const name of await readdir(join(root, account))) {
      const path = join(root, account, name)
      const found = writing.has(path) ? null : await stat(path).catch(unlessMissing)
      if (!found) continue
      const entry = entryOf(account, name, found.size, found.mtimeMs)
      const known = entry && shelf.find(account, entry.key)
      if (known && archiveName(known) === name) continue
      // A newer result of the same key replaces the older one, which a killed process left.
      const replaced = entry ? shelf.add(entry) : null
      if (replaced) await remove(replaced)
      if (!entry) await rm(path, { recursive: true, force: true })
    }
  }

  async function touch(entry: Entry): Promise<void> {
    entry.usedAt = Date.now()
    const now = new Date(entry.usedAt)
    await utimes(pathOf(entry), now, now).catch(unlessMissing)
  }

  async function store(account: string, key: string, result: ResultToKeep): Promise<void> {
    if (result.bytes > shelf.shareBytes * installRules.packedShares) throw new Error(tooLarge)
    const leave = await packingSlots.enterUntil(account, ending.signal)
    const path = join(root, account, `${newId()}${partial}`)
    try {
      const { bavail, bsize } = await statfs(root)
      if (bavail * bsize - Math.min(result.bytes, shelf.shareBytes) < freeBytes)
        throw new Error('The disk of the host has too little free space.')
      writing.add(path)
      const file = await exclusively(async () => {
        await mkdir(join(root, account), { mode: 0o700, recursive: true })
        return open(path, newFlags, 0o600)
      })
      const bytes = await pack(key, result, file).finally(() => file.close())
      const entry = { account, key, digest: result.digest, at: result.at, bytes, usedAt: Date.now() }
      await exclusively(() => putOnShelf(path, entry))
    } finally {
      await rm(path, { force: true })
      writing.delete(path)
      leave()
    }
  }

  /** Resolves to the size of the archive, once it is on the disk. */
  async function pack(key: string, { folder, digest }: ResultToKeep, file: FileHandle): Promise<number> {
    const signal = deadlineSignal(installRules.copySeconds * 1000, ending.signal)
    const { body, totals } = snapshots.make({ ...still, files: folder, facts: { installKey: key }, signal })
    totals.catch(ignoreError('reported by its body too'))
    let bytes = 0
    for await (const piece of body) {
      bytes += piece.length
      // Before anything else goes for it.
      if (bytes > shelf.shareBytes) throw new Error(tooLarge)
      await file.writeFile(piece)
    }
    await file.sync()
    if ((await totals).digest !== digest) throw new Error('The files are not as they were installed.')
    return bytes
  }

  async function putOnShelf(path: string, entry: Entry): Promise<void> {
    await rename(path, pathOf(entry))
    const replaced = shelf.add(entry)
    if (replaced) await remove(replaced)
    await remove(...shelf.makeRoom(entry))
    await syncFolder(join(root, entry.account))
  }

  async function settled(): Promise<void> {
    while (underWay.size > 0) await Promise.all(underWay)
  }

  return {
    async open(account, key) {
      const entry = shelf.find(account, key)
      const file = entry && (await open(pathOf(entry), readFlags).catch(unlessMissing))
      // Another process may have removed it, such as the one that acted as this host before.
      if (entry && !file) shelf.forget(entry)
      if (!entry || !file) return null
      await touch(entry)
      return { digest: entry.digest, at: entry.at, file }
    },
    async use(account, key) {
      const entry = shelf.find(account, key)
      if (entry) await touch(entry)
    },
    async drop(account, key) {
      await exclusively(async () => {
        const entry = shelf.find(account, key)
        if (!entry) return
        shelf.forget(entry)
        await remove(entry)
      })
    },
    keep(account, key, result) {
      if (!accountName.test(account)) return
      const work: Promise<void> = store(account, key, result)
        .catch(error => {
          if (!ending.signal.aborted) warn?.({ account, err: error }, 'installs: a result was not stored')
        })
        .finally(() => underWay.delete(work))
      underWay.add(work)
    },
    settled,
    async sweep(exist) {
      const accounts = await readdir(root)
      const existing = await exist(accounts)
      // One that came meanwhile was not asked about.
      const gone = new Set(accounts.filter(account => !existing.has(account)))
      const oldest = Date.now() - installRules.unusedDays * dayMs
      await exclusively(async () => {
        await reconcile()
        const unused = shelf.entries().filter(({ account, usedAt }) => gone.has(account) || usedAt < oldest)
        for (const entry of unused) shelf.forget(entry)
        await remove(...unused)
        // One that is not empty stays.
        for (const account of accounts) await rmdir(join(root, account)).catch(ignoreError('it has results'))
      })
    },
    size: () => shelf.size(),
    async close() {
      ending.abort(new Error('The host ends.'))
      await settled()
    },
  }
}

const tooLarge = 'It is larger than the share of one account.'

/** Nothing writes to an installed folder, so no program is paused. */
const still = { pause: async () => {}, resume: async () => {} }

function unlessMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}
