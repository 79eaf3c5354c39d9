import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { addAbortSignal, Readable } from 'node:stream'
import { coalesced } from '../../lib/async/coalesced.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB, MiB } from '../../lib/bytes.ts'
import { unlessMissing } from '../../lib/folders/error-codes.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { staleUploadMs } from '../../policy/timeouts.ts'
import { BorrowedFile } from './borrowed-file.ts'
import { DiskFloor } from './disk-floor.ts'
import { DiskSyncs, inFolderSlot } from './disk-syncs.ts'
import { rangeWithin, segmentPath } from './meter.ts'
import { BodyNotFound, type BorrowedBody, type ObjectStore, type PutOptions, type StoredBody } from './port.ts'
import { receive } from './receive.ts'

/** Up to this size a body is read with one call, which makes small downloads fast. */
const smallBytes = 64 * KiB

/**
 * Bodies as files below one folder. Removes what dead processes left, now and with puts every `temporaryMs`; files that were written to within
 * that time stay.
 */
export async function filesystemStore(
  folder: string,
  temporaryMs: number = staleUploadMs,
  sync: SyncFolder = syncFolder,
): Promise<ObjectStore> {
  await mkdir(join(folder, 'tmp'), { recursive: true, mode: 0o700 })
  await removeStale(join(folder, 'tmp'), temporaryMs)
  return new FilesystemStore(folder, sync, temporaryMs)
}

/** Ids of all bodies in such a folder, grouped by their first two characters; none if the folder does not exist. */
export async function* bodiesIn(folder: string): AsyncGenerator<string[]> {
  const list = async (path: string) => (await readdir(path).catch(unlessMissing)) ?? []
  const root = join(folder, 'o')
  for (const first of (await list(root)).sort()) {
    const groups = await Promise.all((await list(join(root, first))).map(second => list(join(root, first, second))))
    yield groups.flat()
  }
}

/** Makes changes in a folder durable. Concurrent callers for one folder share one sync that starts after all of their changes. */
export type SyncFolder = (path: string) => Promise<void>

export const sharedFolderSync = (sync: SyncFolder = syncFolder): SyncFolder => coalesced(sync)

class FilesystemStore implements ObjectStore {
  readonly #folder: string
  readonly #sync: SyncFolder
  readonly #floor: DiskFloor
  /** Folders whose names this process has synced, or is syncing: those of four digits of ids, and those above, about 66,000. */
  readonly #names = new Map<string, Promise<void>>()

  readonly #temporaryMs: number
  /** When what dead processes left was removed last, by `performance.now()`. */
  #tidiedAt = performance.now()

  constructor(folder: string, sync: SyncFolder, temporaryMs: number) {
    this.#folder = folder
    this.#floor = new DiskFloor(folder)
    this.#sync = sharedFolderSync(folder => inFolderSlot(folder, sync))
    this.#temporaryMs = temporaryMs
  }

  async put(id: string, body: Readable, options: PutOptions = {}): Promise<StoredBody> {
    void this.#tidy().catch(ignoreError('a later put tries again'))
    const target = this.#path(id)
    const temporary = join(this.#folder, 'tmp', randomUUID())
    try {
      const stored = await write(temporary, body, options, this.#floor)
      await this.#publish(temporary, target)
      return stored
    } catch (error) {
      await rm(temporary, { force: true })
      throw error
    }
  }

  async get(id: string, from?: number, to?: number, signal?: AbortSignal): Promise<Readable> {
    const file = await this.open(id)
    try {
      const range = rangeWithin((await file.stat()).size, from, to)
      if (range && range.to - range.from >= smallBytes) {
        const stream = file.createReadStream({ start: range.from, end: range.to, highWaterMark: MiB })
        return signal ? addAbortSignal(signal, stream) : stream
      }
      const bytes = range ? await readWhole(file, range.from, range.to - range.from + 1) : Buffer.alloc(0)
      await file.close()
      return Readable.from(bytes.length > 0 ? [bytes] : [], { objectMode: false })
    } catch (error) {
      await file.close()
      throw error
    }
  }

  async lend(id: string, from?: number, to?: number, signal?: AbortSignal): Promise<BorrowedBody> {
    const file = await this.open(id)
    try {
      const range = rangeWithin((await file.stat()).size, from, to) ?? { from: 0, to: -1 }
      return new BorrowedFile(file, range.from, range.to, signal)
    } catch (error) {
      await file.close()
      throw error
    }
  }

  async read(id: string, from: number, length: number): Promise<Buffer> {
    const file = await this.open(id)
    try {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, from)
      return buffer.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  }

  async head(id: string): Promise<{ size: number } | null> {
    const stats = await stat(this.#path(id)).catch(unlessMissing)
    return stats && { size: stats.size }
  }

  async delete(id: string): Promise<void> {
    const path = this.#path(id)
    await rm(path, { force: true })
    // Also of an absent one: who removed it may have died before this. Its row is deleted next, and a power cut must not bring it back.
    await this.#sync(dirname(path)).catch(unlessMissing)
  }

  async open(id: string): Promise<FileHandle> {
    const file = await open(this.#path(id), 'r').catch(unlessMissing)
    if (!file) throw new BodyNotFound(`There is no body ${id}.`)
    return file
  }

  #path(id: string): string {
    return join(this.#folder, segmentPath(id))
  }

  /** Processes that use a store live longer than others that die in the middle of a put. */
  async #tidy(): Promise<void> {
    if (performance.now() - this.#tidiedAt < this.#temporaryMs) return
    this.#tidiedAt = performance.now()
    await removeStale(join(this.#folder, 'tmp'), this.#temporaryMs)
  }

  /** The name appears only with all its bytes, and survives a power cut: the folder is synced too. */
  async #publish(temporary: string, target: string): Promise<void> {
    const folder = dirname(target)
    try {
      await rename(temporary, target).catch(async error => {
        if (error.code !== 'ENOENT') throw error
        await mkdir(folder, { recursive: true, mode: 0o700 })
        for (const name of this.#foldersTo(folder)) this.#names.delete(name)
        await rename(temporary, target)
      })
      // The folder's name too, even if another put or process has created it: that one may not have synced the name yet.
      await Promise.all([this.#sync(folder), ...this.#foldersTo(folder).map(name => this.#syncName(name))])
    } catch (error) {
      await rm(target, { force: true })
      throw error
    }
  }

  /** A folder of bodies and those above it, up to the store's own. */
  #foldersTo(folder: string): string[] {
    return [folder, dirname(folder), dirname(dirname(folder))]
  }

  /** Makes the name of a folder durable, once: it is in the folder above. A failed sync is tried again by the next put. */
  #syncName(folder: string): Promise<void> {
    const earlier = this.#names.get(folder)
    if (earlier) return earlier
    const synced = this.#sync(dirname(folder))
    this.#names.set(folder, synced)
    return synced.catch(error => {
      this.#names.delete(folder)
      throw error
    })
  }
}

async function write(path: string, body: Readable, options: PutOptions, floor: DiskFloor): Promise<StoredBody> {
  const opening = floor.assertFree().then(() => open(path, 'wx', 0o600))
  const syncs = new DiskSyncs(options.ownerId ?? path)
  const { file, ...stored } = await receive(opening, body, options, async (file, bytes) => {
    if (await syncs.count(file, bytes)) await floor.assertFree()
  })
  await syncs.end(file).finally(() => file.close())
  return stored
}

async function readWhole(file: FileHandle, from: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length)
  const { bytesRead } = await file.read(bytes, 0, length, from)
  if (bytesRead !== length) throw new Error(`A stored body has only ${bytesRead} of ${length} bytes.`)
  return bytes
}

async function removeStale(folder: string, olderThanMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    const stats = await stat(path).catch(unlessMissing)
    if (stats && Date.now() - stats.mtimeMs >= olderThanMs) await rm(path, { force: true })
  }
}
