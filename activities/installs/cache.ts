import type { FileHandle } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { onDisk } from '../../lib/bytes.ts'
import { freeBytesOf } from '../../lib/folders/free-bytes.ts'
import { dayMs } from '../../lib/time.ts'
import { installRules, toolRules } from '../../policy/hosts/installs.ts'
import type { Snapshots } from '../snapshots/port.ts'
import { Archives } from './archives.ts'
import { PackingQueue } from './packing-queue.ts'
import type { InstallCache, ResultToKeep } from './port.ts'
import { Shelf } from './shelf.ts'
import { copyTools, holdTools } from './tool-archives.ts'

export interface InstallCacheOptions {
  /** Only this host writes to it. */
  root: string
  maxBytes: number
  snapshots: Pick<Snapshots, 'make'>
  /** Free space that it leaves on the disk. */
  freeBytes?: number
  warn?(facts: object, message: string): void
}

interface Addition {
  account: string
  /** The key of a result, or the application of a tools' cache. */
  name: string
  /** Size of what comes. */
  bytes: number
  /** Adds it, until the signal gives it up. */
  add(signal: AbortSignal): Promise<void>
  after?(): Promise<void>
}

/** Names of accounts and applications, which are names of folders and files. */
const plainName = /^[\w-]{1,64}$/

/** Opens the archives below `root`, and removes what a killed process left half-written: only the process that acts as the host may. */
export async function openInstallCache(options: InstallCacheOptions): Promise<InstallCache> {
  const { root, maxBytes, snapshots, freeBytes = installRules.freeBytes, warn } = options
  const shelf = new Shelf({ bytes: maxBytes, entries: installRules.entries }, installRules.accountShare)
  const ending = new AbortController()
  /** What waits to be stored, or is being packed. */
  const inProgress = new Map<Promise<void>, { name: string; giveUp: AbortController }>()
  const queue = new PackingQueue()
  const archives = new Archives(root, shelf)
  await archives.load()

  /** Runs `add` in one of the slots, in the background, for what will be found by this name. */
  function inBackground({ account, name, bytes, add, after }: Addition): void {
    const giveUp = new AbortController()
    const signal = AbortSignal.any([ending.signal, giveUp.signal])
    const work: Promise<void> = inSlot(account, bytes, signal, () => add(signal))
      .finally(after)
      .catch(error => {
        const facts = { account, dropped: queue.dropped, err: error }
        if (!signal.aborted) warn?.(facts, 'installs: a result was not stored')
      })
      .finally(() => inProgress.delete(work))
    inProgress.set(work, { name: `${account}/${name}`, giveUp })
  }

  async function inSlot(account: string, bytes: number, signal: AbortSignal, add: () => Promise<void>): Promise<void> {
    const leave = await queue.enter(account, signal)
    try {
      if ((await freeBytesOf(root)) - Math.min(bytes, shelf.share.bytes) < freeBytes)
        throw new Error('The disk of the host has too little free space.')
      await add()
    } finally {
      leave()
    }
  }

  const isTooLarge = (bytes: number) => onDisk(bytes) > shelf.share.bytes

  /** Resolves to the size of the archive, once it is on the disk. */
  async function pack(
    key: string,
    { folder, digest }: ResultToKeep,
    file: FileHandle,
    given: AbortSignal,
  ): Promise<number> {
    const signal = deadlineSignal(installRules.copySeconds * 1000, given)
    const { body, totals } = snapshots.make({ ...still, files: folder, facts: { installKey: key }, signal })
    totals.catch(ignoreError('reported by its body too'))
    let bytes = 0
    for await (const piece of body) {
      bytes += piece.length
      // Before anything else goes for it.
      if (isTooLarge(bytes)) throw new Error(tooLarge)
      await file.writeFile(piece)
    }
    await file.sync()
    if ((await totals).digest !== digest) throw new Error('The files are not as they were installed.')
    return bytes
  }

  async function settled(): Promise<void> {
    while (inProgress.size > 0) await Promise.all(inProgress.keys())
  }

  /** A fault of the disk costs a result, and fails no deploy. */
  const unlessFaulty = <T>(work: Promise<T>): Promise<T | null> =>
    work.catch(error => {
      warn?.({ err: error }, 'installs: the disk of the cache has a fault')
      return null
    })
  async function drop(account: string, name: string): Promise<void> {
    // What waits would come onto the shelf afterwards.
    for (const one of inProgress.values())
      if (one.name === `${account}/${name}`) one.giveUp.abort(new Error('It is not wanted any more.'))
    await unlessFaulty(archives.drop(account, name))
  }

  return {
    async open(account, key) {
      const entry = shelf.find(account, key)
      const file = entry && (await unlessFaulty(archives.open(entry)))
      return entry && file ? { digest: entry.digest, at: entry.at, file } : null
    },
    async use(account, key) {
      const entry = shelf.find(account, key)
      if (entry) await archives.touch(entry)
    },
    drop,
    keep(account, key, result) {
      if (!plainName.test(account)) return
      const { bytes, digest, at } = result
      const add = async (signal: AbortSignal) => {
        if (bytes > shelf.share.bytes * installRules.packedShares) throw new Error(tooLarge)
        const fill = async (file: FileHandle) => {
          const packed = await pack(key, result, file, signal)
          return { account, app: null, key, digest, at, bytes: packed, usedAt: Date.now() }
        }
        await archives.add(account, 0o600, fill, signal)
      }
      inBackground({ account, name: key, bytes, add })
    },
    async openTools(account, app, key, signal) {
      const entry = shelf.find(account, app)
      return entry ? holdTools(archives, entry, key, signal) : null
    },
    dropTools: drop,
    keepTools(account, app, { key, at, bytes, file }) {
      const isOffered = plainName.test(account) && plainName.test(app)
      const add = async (signal: AbortSignal) => {
        // The program of the build packs it, and its limit with it.
        if (!isOffered || isTooLarge(bytes) || bytes > toolRules.folderBytes) throw new Error(tooLarge)
        // Read by the application's own user in its container, through nothing but this file.
        const fill = async (into: FileHandle) => {
          const deadline = deadlineSignal(installRules.copySeconds * 1000, signal)
          const digest = await copyTools(file, into, bytes, deadline)
          return { account, app, key, digest, at, bytes, usedAt: Date.now() }
        }
        await archives.add(account, 0o644, fill, signal)
      }
      inBackground({ account, name: app, bytes, add, after: () => file.close() })
    },
    settled,
    async sweep(accountsExist, appsExist) {
      const accounts = await archives.accounts()
      const apps = shelf.entries().flatMap(({ app }) => app ?? [])
      // One that was added meanwhile was not looked up.
      const deleted = new Set([
        ...without(accounts, await accountsExist(accounts)),
        ...without(apps, await appsExist(apps)),
      ])
      const oldest = Date.now() - installRules.unusedDays * dayMs
      const isUnused = (entry: { account: string; app: string | null; usedAt: number }) =>
        deleted.has(entry.account) || (entry.app !== null && deleted.has(entry.app)) || entry.usedAt < oldest
      await archives.sweep(accounts, isUnused)
    },
    size: () => shelf.size(),
    async close() {
      ending.abort(new Error('The host ends.'))
      await settled()
    },
  }
}

const tooLarge = 'It is larger than the share of one account.'

const without = (all: readonly string[], some: ReadonlySet<string>): string[] => all.filter(one => !some.has(one))

/** Nothing writes to an installed folder, so no program is paused. */
const still = { pause: async () => {}, resume: async () => {} }
