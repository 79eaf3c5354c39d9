import { constants } from 'node:fs'
import { mkdir, open, readdir, rename, rm, rmdir, stat, statfs, unlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreError } from '../../lib/async/ignore-error.ts'
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

/** Opens the archives below `root`; removes what a killed process left half-written. One process at a time. */
export async function openInstallCache(options: InstallCacheOptions): Promise<InstallCache> {
  const { root, maxBytes, snapshots, freeBytes = installRules.freeBytes, warn } = options
  const shelf = new Shelf(maxBytes, maxBytes * installRules.accountShare)
  const ending = new AbortController()
  const underWay = new Set<Promise<void>>()
  const pathOf = (entry: Entry) => join(root, entry.account, archiveName(entry))
  const remove = async (...entries: Entry[]) => {
    for (const entry of entries) await unlink(pathOf(entry)).catch(unlessMissing)
  }

  await mkdir(root, { recursive: true, mode: 0o700 })
  for (const one of await readdir(root, { withFileTypes: true })) if (one.isDirectory()) await load(one.name)
  await remove(...shelf.makeRoom(null))

  async function load(account: string): Promise<void> {
    for (const name of await readdir(join(root, account))) {
      const path = join(root, account, name)
      const { size, mtimeMs } = await stat(path)
      const entry = entryOf(account, name, size, mtimeMs)
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
    const leave = await packingSlots.enterUntil(account, ending.signal)
    const path = join(root, account, `${newId()}${partial}`)
    const writing = shelf.begin(account)
    try {
      const { bavail, bsize } = await statfs(root)
      if (bavail * bsize - Math.min(result.bytes, shelf.shareBytes) < freeBytes)
        throw new Error('The disk of the host has too little free space.')
      await mkdir(join(root, account), { mode: 0o700, recursive: true })
      const signal = deadlineSignal(installRules.copySeconds * 1000, ending.signal)
      const { body, totals } = snapshots.make({ ...still, files: result.folder, facts: { installKey: key }, signal })
      totals.catch(ignoreError('reported by its body too'))
      const file = await open(path, newFlags, 0o600)
      try {
        for await (const piece of body) {
          writing.bytes += piece.length
          await remove(...shelf.makeRoom(account))
          await file.writeFile(piece)
        }
        await file.sync()
      } finally {
        await file.close()
      }
      if ((await totals).digest !== result.digest) throw new Error('The files are not as they were installed.')
      const entry = { account, key, digest: result.digest, at: result.at, bytes: writing.bytes, usedAt: Date.now() }
      await rename(path, pathOf(entry))
      await syncFolder(join(root, account))
      const replaced = shelf.add(entry)
      // It replaces itself when a later result of the key was stored meanwhile.
      if (replaced && (replaced === entry || archiveName(replaced) !== archiveName(entry))) await remove(replaced)
    } finally {
      shelf.end(writing)
      await rm(path, { force: true })
      leave()
    }
  }

  async function settled(): Promise<void> {
    while (underWay.size > 0) await Promise.all(underWay)
  }

  return {
    async open(account, key) {
      const entry = shelf.find(account, key)
      const file = entry && (await open(pathOf(entry), readFlags).catch(unlessMissing))
      // Another process may have removed it, such as one that waits to become this host.
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
      const entry = shelf.find(account, key)
      if (!entry) return
      shelf.forget(entry)
      await remove(entry)
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
      const oldest = Date.now() - installRules.unusedDays * dayMs
      const unused = shelf.entries().filter(({ account, usedAt }) => !existing.has(account) || usedAt < oldest)
      for (const entry of unused) shelf.forget(entry)
      await remove(...unused)
      // One that is not empty stays.
      for (const account of accounts) await rmdir(join(root, account)).catch(ignoreError('it has results'))
    },
    size: () => shelf.size(),
    async close() {
      ending.abort(new Error('The host ends.'))
      await settled()
    },
  }
}

/** Nothing writes to an installed folder, so no program is paused. */
const still = { pause: async () => {}, resume: async () => {} }

function unlessMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}
