import { type FileHandle, open, opendir, rmdir, unlink } from 'node:fs/promises'
import { untrustedFileFlags, untrustedFolderFlags } from '../../../lib/folders/disk-names.ts'
import { codeOf, unreachable } from '../../../lib/folders/error-codes.ts'
import { pointInTimeRules, type WalFile, walFileName, walFileOf } from '../../../policy/databases/point-in-time.ts'
import { archiveNames } from './port.ts'

/** Of the first page of a WAL file: its position. */
const positionAt = 8

export interface FoundFiles {
  /** Oldest first. */
  files: WalFile[]
  /** The engine has left files out. */
  gap: boolean
  /** What else is there; the engine never leaves it. */
  others: string[]
}

/** A WAL file as it was read, and when the engine had finished it. */
export interface ReadFile {
  bytes: Buffer
  at: Date
}

/**
 * The folder in which an engine leaves its finished WAL files. The engine may change it at any time, so it is opened by descriptor, and what is
 * in it without following links.
 */
export class ArchiveFolder {
  readonly #folder: FileHandle

  private constructor(folder: FileHandle) {
    this.#folder = folder
  }

  /** Calls `work` with the archive folder in this data folder; resolves to null when there is none. */
  static async within<T>(data: string, work: (folder: ArchiveFolder) => Promise<T>): Promise<T | null> {
    const outer = await open(data, untrustedFolderFlags).catch(nullIfMissing)
    if (!outer) return null
    try {
      const inner = await open(`/proc/self/fd/${outer.fd}/${archiveNames.folder}`, untrustedFolderFlags).catch(
        nullIfMissing,
      )
      if (!inner) return null
      try {
        return await work(new ArchiveFolder(inner))
      } finally {
        await inner.close()
      }
    } finally {
      await outer.close()
    }
  }

  /** Whether a stopped engine has archived all that it wrote: a full disk may have prevented that, and a clean stop does not say so. */
  static async isComplete(data: string): Promise<boolean> {
    const opened: FileHandle[] = []
    try {
      for (const name of [data, ...archiveNames.states]) {
        const outer = opened.at(-1)
        opened.push(await open(outer ? `/proc/self/fd/${outer.fd}/${name}` : name, untrustedFolderFlags))
      }
      const states = await opendir(`/proc/self/fd/${opened.at(-1)!.fd}`, { encoding: 'latin1' as BufferEncoding })
      for await (const { name } of states) if (name.endsWith(archiveNames.waits)) return false
      return true
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    } finally {
      for (const folder of opened) await folder.close()
    }
  }

  /** Looks at a bounded number of names: once those are removed, the next call sees the rest. */
  async list(): Promise<FoundFiles> {
    const contents: FoundFiles = { files: [], gap: false, others: [] }
    const folder = await opendir(`/proc/self/fd/${this.#folder.fd}`, { encoding: 'latin1' as BufferEncoding })
    let names = 0
    for await (const { name } of folder) {
      const file = walFileOf(name)
      if (file) contents.files.push(file)
      else if (name === archiveNames.gap) contents.gap = true
      else if (name !== archiveNames.draft) contents.others.push(name)
      if (++names === pointInTimeRules.maxNames) break
    }
    contents.files.sort((a, b) => a.timeline - b.timeline || a.number - b.number)
    return contents
  }

  /** Null unless it is a WAL file: whole, and with the position of its name. */
  async read(file: WalFile): Promise<ReadFile | null> {
    const handle = await open(this.#at(walFileName(file)), untrustedFileFlags).catch(error => {
      if (['ELOOP', 'ENXIO', 'ENOENT'].includes(codeOf(error))) return null
      throw error
    })
    if (!handle) return null
    try {
      const stats = await handle.stat()
      if (!stats.isFile() || stats.size !== pointInTimeRules.fileBytes) return null
      const bytes = Buffer.allocUnsafe(pointInTimeRules.fileBytes)
      for (let at = 0; at < bytes.length; ) {
        const { bytesRead } = await handle.read(bytes, at, bytes.length - at, at)
        if (bytesRead === 0) return null
        at += bytesRead
      }
      const position = bytes.readBigUInt64LE(positionAt)
      if (position !== BigInt(file.number) * BigInt(pointInTimeRules.fileBytes)) return null
      return { bytes, at: new Date(Math.min(stats.mtimeMs, Date.now())) }
    } finally {
      await handle.close()
    }
  }

  /** Removes a name, but no folder that has something in it; missing is success. False when it is there still. */
  async remove(name: string): Promise<boolean> {
    const path = this.#at(name)
    try {
      await unlink(path)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return true
      return rmdir(path).then(
        () => true,
        () => false,
      )
    }
    return true
  }

  /** Removes everything that the engine has left. */
  async clear(): Promise<void> {
    for (;;) {
      const { files, gap, others } = await this.list()
      const names = [...files.map(walFileName), ...(gap ? [archiveNames.gap] : []), ...others]
      if (names.length === 0) return
      for (const name of names)
        if (!(await this.remove(name)))
          throw new Error(`The archive folder has something that cannot be removed: ${name}`)
    }
  }

  #at(name: string): Buffer {
    return Buffer.from(`/proc/self/fd/${this.#folder.fd}/${name}`, 'latin1')
  }
}

/** What has the name of a folder and is none counts as missing: nothing is read from it. */
function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

const isMissing = (error: unknown): boolean => unreachable.has(codeOf(error))
