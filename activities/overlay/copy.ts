import * as fs from 'node:fs'
import { constants, type Stats } from 'node:fs'
import { setImmediate as breathe } from 'node:timers/promises'
import { KiB, MiB } from '../../lib/bytes.ts'
import { bytesOf, codeOf, textOf, toldLeased } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import type { OverlayLimits } from '../../policy/apps/overlay.ts'
import { type Overlaid, OverlayRefused } from './port.ts'

const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const writeFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
const buffer = Buffer.allocUnsafe(256 * KiB)
const zeros = Buffer.alloc(buffer.length)
/** How something fails that was there a moment ago, or is something else by now. */
const gone: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EINVAL'])

/** Work after which others get a turn: the end of the parent has to be heard. */
const entriesInARow = 64
const bytesInARow = 16 * MiB

/**
 * Copies the application's files to `build`, then the release's sources over them below `path`, as placing will: what is in the way of
 * a file or folder, a link too, makes room for it and is never followed. Modes, times and hard links are kept; pipes, sockets
 * and devices are left out, and so is what vanishes meanwhile. Throws `OverlayRefused` beyond a limit, or for what its owner has
 * closed to itself.
 */
export async function layOver(
  { files, release }: { files: Tree; release: Tree },
  path: string,
  limits: OverlayLimits,
): Promise<Overlaid> {
  fs.mkdirSync(release.at('build'), { mode: 0o755 })
  const work: Work = { limits, entries: 0, bytes: 0, rest: { entries: entriesInARow, bytes: bytesInARow } }
  const source = release.tree('source')
  await new Layer(files, release, work).lay('')
  await new Layer(source, release, work).lay(bytesOf(path))
  source.close()
  return { entries: work.entries, bytes: work.bytes }
}

interface Work extends Overlaid {
  limits: OverlayLimits
  rest: Overlaid
}

class Layer {
  readonly #to: Tree
  /** The same folder once more: a hard link needs two of its names at once. */
  readonly #linked: Tree
  /** Where a file with several names was copied to first. */
  readonly #copies = new Map<string, string>()

  constructor(
    readonly from: Tree,
    release: Tree,
    readonly work: Work,
  ) {
    this.#to = release.tree('build')
    this.#linked = release.tree('build')
  }

  async lay(at: string): Promise<void> {
    const names = at === '' ? [] : at.split('/')
    const leading = names.map((_, index) => names.slice(0, index + 1).join('/'))
    const modes = leading.map(folder => [folder, this.#makeFolder(folder)] as const)
    const { root } = this.from
    await this.#fill('', at, 1)
    for (const [folder, mode] of modes.reverse()) fs.chmodSync(this.#opened(folder), mode ?? 0o755)
    if (at === '') this.#settle('', root)
    this.#to.close()
    this.#linked.close()
  }

  async #fill(folder: string, at: string, depth: number): Promise<void> {
    if (depth > this.work.limits.depth)
      throw new OverlayRefused(`${textOf(folder)} lies over ${this.work.limits.depth} folders deep.`)
    for (const name of this.#read(folder, () => this.from.list(folder)) ?? []) {
      const path = folder === '' ? name : `${folder}/${name}`
      const target = at === '' ? name : `${at}/${name}`
      const stats = this.#read(path, () => this.from.stat(path))
      if (!stats) continue
      await this.#count(1, 0)
      if (stats.isDirectory()) {
        this.#makeFolder(target)
        await this.#fill(path, target, depth + 1)
        this.#settle(target, stats)
      } else if (stats.isFile()) await this.#copyFile(path, target, stats)
      else if (stats.isSymbolicLink()) this.#copyLink(path, target, stats)
    }
  }

  /** Null for what is gone. */
  #read<T>(path: string, read: () => T): T | null {
    try {
      return read()
    } catch (error) {
      if (codeOf(error) === 'EACCES')
        throw new OverlayRefused(
          `${textOf(path)} is closed to its own user, so nothing can be installed from a copy of it.`,
        )
      if (!gone.has(codeOf(error))) throw toldLeased(error, path)
      this.from.forget()
      return null
    }
  }

  /** A folder that can be filled. The mode of one that was there, null for a new one. */
  #makeFolder(target: string): number | null {
    const found = this.#to.stat(target)
    if (found?.isDirectory()) {
      this.#to.unlock(target)
      return found.mode & 0o7777
    }
    if (found) fs.unlinkSync(this.#to.at(target))
    fs.mkdirSync(this.#to.at(target), { mode: 0o700 })
    return null
  }

  /** Once a folder is full, for nothing can be laid into one that its owner has closed. */
  #settle(target: string, stats: Stats): void {
    const folder = this.#opened(target)
    fs.chmodSync(folder, modeOf(stats))
    fs.utimesSync(folder, stats.atimeMs / 1000, stats.mtimeMs / 1000)
  }

  /** An open folder as system calls take it: never a link of that name. */
  #opened(target: string): Buffer {
    return this.#to.at(target === '' ? '.' : `${target}/.`)
  }

  #copyLink(path: string, target: string, { atimeMs, mtimeMs }: Stats): void {
    const leads = this.#read(path, () => fs.readlinkSync(this.from.at(path), 'buffer'))
    if (!leads) return
    this.#to.remove(target)
    fs.symlinkSync(leads, this.#to.at(target))
    fs.lutimesSync(this.#to.at(target), atimeMs / 1000, mtimeMs / 1000)
  }

  async #copyFile(path: string, target: string, { nlink, dev, ino }: Stats): Promise<void> {
    const key = nlink > 1 ? `${dev}:${ino}` : null
    const copy = key && this.#copies.get(key)
    if (copy) {
      this.#to.remove(target)
      fs.linkSync(this.#linked.at(copy), this.#to.at(target))
      return
    }
    const source = this.#read(path, () => fs.openSync(this.from.at(path), readFlags))
    if (source === null) return
    try {
      const stats = fs.fstatSync(source)
      if (!stats.isFile()) return
      this.#to.remove(target)
      const made = fs.openSync(this.#to.at(target), writeFlags, 0o600)
      try {
        await this.#copyBytes(source, made, stats)
        fs.fchmodSync(made, modeOf(stats))
        fs.futimesSync(made, stats.atimeMs / 1000, stats.mtimeMs / 1000)
      } finally {
        fs.closeSync(made)
      }
    } finally {
      fs.closeSync(source)
    }
    if (key) this.#copies.set(key, target)
  }

  /** No more than the file had when it was opened: somebody may be adding to it for ever. Holes stay holes. */
  async #copyBytes(source: number, made: number, { size, blocks }: Stats): Promise<void> {
    const sparse = blocks * 512 < size
    let at = 0
    while (at < size) {
      const read = fs.readSync(source, buffer, 0, Math.min(buffer.length, size - at), at)
      if (read === 0) break
      await this.#count(0, read)
      const hole = sparse && buffer.compare(zeros, 0, read, 0, read) === 0
      for (let written = 0; !hole && written < read; )
        written += fs.writeSync(made, buffer, written, read - written, at + written)
      at += read
    }
    if (sparse) fs.ftruncateSync(made, at)
  }

  async #count(entries: number, bytes: number): Promise<void> {
    const { work } = this
    work.entries += entries
    work.bytes += bytes
    if (work.entries > work.limits.entries) throw new OverlayRefused(`There are over ${work.limits.entries} files.`)
    if (work.bytes > work.limits.bytes) throw new OverlayRefused(`The files have over ${work.limits.bytes} bytes.`)
    work.rest.entries -= entries
    work.rest.bytes -= bytes
    if (work.rest.entries > 0 && work.rest.bytes > 0) return
    work.rest = { entries: entriesInARow, bytes: bytesInARow }
    await breathe()
  }
}

/** Set-user and set-group bits mean something else once the owner is another. */
function modeOf({ mode, uid }: Stats): number {
  return mode & (uid === process.getuid!() ? 0o7777 : 0o777)
}
