import * as fs from 'node:fs'
import { constants, type Stats } from 'node:fs'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { KiB, MiB } from '../../lib/bytes.ts'
import { nameBytes, nameText, untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { codeOf, leaseRefused, vanished } from '../../lib/folders/error-codes.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import type { OverlayLimits } from '../../policy/apps/overlay.ts'
import { OverlayRefused, type OverlayTotals } from './port.ts'

const writeFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
const buffer = Buffer.allocUnsafe(256 * KiB)
const zeros = Buffer.alloc(buffer.length)

/** Work between two pauses for the event loop, so that the end of the parent is noticed. */
const entriesPerSlice = 64
const bytesPerSlice = 16 * MiB

/**
 * Copies the application's files to `build`, then the release's sources over them below `path`, as placing will: whatever obstructs
 * a file or folder, even a link, is replaced and never followed. Modes, times and hard links are preserved; pipes, sockets
 * and devices are left out, and so is what vanishes meanwhile. Throws `OverlayRefused` beyond a limit, or for files that their owner
 * cannot read.
 */
export async function layOver(
  { files, release }: { files: Tree; release: Tree },
  path: string,
  limits: OverlayLimits,
): Promise<OverlayTotals> {
  fs.mkdirSync(release.at('build'), { mode: 0o755 })
  const work: Work = { limits, entries: 0, bytes: 0, rest: { entries: entriesPerSlice, bytes: bytesPerSlice } }
  const source = release.tree('source')
  await new Layer(files, release, work).lay('')
  await new Layer(source, release, work).lay(nameBytes(path))
  source.close()
  return { entries: work.entries, bytes: work.bytes }
}

interface Work extends OverlayTotals {
  limits: OverlayLimits
  rest: OverlayTotals
}

class Layer {
  readonly #to: Tree
  /** The same folder again: a hard link needs two paths in it at the same time. */
  readonly #linked: Tree
  /** First copy of each file with several names. */
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
    if (at === '') this.#finishFolder('', root)
    this.#to.close()
    this.#linked.close()
  }

  async #fill(folder: string, at: string, depth: number): Promise<void> {
    if (depth > this.work.limits.depth)
      throw new OverlayRefused(`${nameText(folder)} lies over ${this.work.limits.depth} folders deep.`)
    for (const name of this.#read(folder, () => this.from.list(folder)) ?? []) {
      const path = folder === '' ? name : `${folder}/${name}`
      const target = at === '' ? name : `${at}/${name}`
      const stats = this.#read(path, () => this.from.stat(path))
      if (!stats) continue
      await this.#count(1, 0)
      if (stats.isDirectory()) {
        this.#makeFolder(target)
        await this.#fill(path, target, depth + 1)
        this.#finishFolder(target, stats)
      } else if (stats.isFile()) await this.#copyFile(path, target, stats)
      else if (stats.isSymbolicLink()) this.#copyLink(path, target, stats)
    }
  }

  /** Null for what has vanished. */
  #read<T>(path: string, read: () => T): T | null {
    try {
      return read()
    } catch (error) {
      if (codeOf(error) === 'EACCES')
        throw new OverlayRefused(
          `${nameText(path)} cannot be read by its own user, so nothing can be installed from a copy of it.`,
        )
      if (!vanished.has(codeOf(error))) throw leaseRefused(error, path)
      this.from.forget()
      return null
    }
  }

  /** Ensures a folder that can be filled. Returns the mode of an existing one, null for a new one. */
  #makeFolder(target: string): number | null {
    const existing = this.#to.stat(target)
    if (existing?.isDirectory()) {
      this.#to.unlock(target)
      return existing.mode & 0o7777
    }
    if (existing) fs.unlinkSync(this.#to.at(target))
    fs.mkdirSync(this.#to.at(target), { mode: 0o700 })
    return null
  }

  /** Sets mode and times once a folder is filled: its mode may forbid writing into it. */
  #finishFolder(target: string, stats: Stats): void {
    const folder = this.#opened(target)
    fs.chmodSync(folder, modeOf(stats))
    fs.utimesSync(folder, stats.atimeMs / 1000, stats.mtimeMs / 1000)
  }

  /** Path of an open folder for system calls: never a link of that name. */
  #opened(target: string): Buffer {
    return this.#to.at(target === '' ? '.' : `${target}/.`)
  }

  #copyLink(path: string, target: string, { atimeMs, mtimeMs }: Stats): void {
    const linkTarget = this.#read(path, () => fs.readlinkSync(this.from.at(path), 'buffer'))
    if (!linkTarget) return
    this.#to.remove(target)
    fs.symlinkSync(linkTarget, this.#to.at(target))
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
    const source = this.#read(path, () => fs.openSync(this.from.at(path), untrustedFileFlags))
    if (source === null) return
    try {
      const stats = fs.fstatSync(source)
      if (!stats.isFile()) return
      this.#to.remove(target)
      const output = fs.openSync(this.#to.at(target), writeFlags, 0o600)
      try {
        await this.#copyBytes(source, output, stats)
        fs.fchmodSync(output, modeOf(stats))
        fs.futimesSync(output, stats.atimeMs / 1000, stats.mtimeMs / 1000)
      } finally {
        fs.closeSync(output)
      }
    } finally {
      fs.closeSync(source)
    }
    if (key) this.#copies.set(key, target)
  }

  /** Copies no more than the file had when it was opened: it may grow for ever. Holes stay holes. */
  async #copyBytes(source: number, output: number, { size, blocks }: Stats): Promise<void> {
    const sparse = blocks * 512 < size
    let at = 0
    while (at < size) {
      const read = fs.readSync(source, buffer, 0, Math.min(buffer.length, size - at), at)
      if (read === 0) break
      await this.#count(0, read)
      const hole = sparse && buffer.compare(zeros, 0, read, 0, read) === 0
      for (let written = 0; !hole && written < read; )
        written += fs.writeSync(output, buffer, written, read - written, at + written)
      at += read
    }
    if (sparse) fs.ftruncateSync(output, at)
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
    work.rest = { entries: entriesPerSlice, bytes: bytesPerSlice }
    await yieldToEventLoop()
  }
}

/** Drops set-user and set-group bits when the copy gets another owner. */
function modeOf({ mode, uid }: Stats): number {
  return mode & (uid === process.getuid!() ? 0o7777 : 0o777)
}
