import * as fs from 'node:fs'
import { constants, type Stats } from 'node:fs'
import { KiB } from '../../lib/bytes.ts'
import { codeOf, textOf } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import type { ManifestLine } from './manifest.ts'
import type { ArchiveOutput } from './output.ts'
import { type Fill, type Packed, packStream, packWhole, shrinks, stored, storeStream, wholeBytes } from './pack.ts'
import { SnapshotRefused } from './port.ts'
import { gone, toldClosed, walk } from './walk.ts'
import { dataDescriptor, localHeader, wideFromBytes, type ZipEntry } from './zip.ts'

/** A path as it was copied last: what the archive will say of it, and how to see whether it changed since. */
export type Copied = Omit<ManifestLine, 'path'> &
  Omit<ZipEntry, 'name' | 'mode'> & {
    ino: number
    /** ms since 1970; NaN, which equals nothing, when a later change would leave no trace in it. */
    ctime: number
    /** The last walk that has seen it. */
    pass: number
  }

/** What is written so close to a look at the clock of the file system may be written again in the same tick of it, in ms. */
const tickMs = 50

const fileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const types = { file: constants.S_IFREG, folder: constants.S_IFDIR, link: constants.S_IFLNK } as const

/** Copies a tree into an archive in several passes, of which each copies what changed since the one before. */
export class TreeCopy {
  readonly copied = new Map<string, Copied>()
  readonly #tree: Tree
  readonly #out: ArchiveOutput
  readonly #maxBytes: number
  #pass = 0
  #read = 0

  /** Reads at most so many bytes in a pass: a file of one block may claim terabytes, and is zeros all the way. */
  constructor(tree: Tree, out: ArchiveOutput, maxBytes: number) {
    this.#tree = tree
    this.#out = out
    this.#maxBytes = maxBytes
  }

  /**
   * Resolves to the bytes copied. `since` is when pages that programs write to through memory were last clean (ms since 1970):
   * only a first write after it moves a file's time, so that what has moved already counts as still being written to.
   */
  async pass({ since, level }: { since: number; level: number }): Promise<number> {
    const begun = this.#out.position
    this.#pass++
    this.#read = 0
    for (const [path, stats] of walk(this.#tree)) {
      const known = this.copied.get(path)
      if (known && isUnchanged(known, stats)) known.pass = this.#pass
      else await this.#copy(path, stats, since - tickMs, level)
    }
    for (const [path, { pass }] of this.copied) if (pass < this.#pass) this.copied.delete(path)
    return this.#out.position - begun
  }

  async #copy(path: string, stats: Stats, unsafeFrom: number, level: number): Promise<void> {
    try {
      if (stats.isFile()) return await this.#copyFile(path, unsafeFrom, level)
      if (stats.isDirectory()) return await this.#keep(path, this.#draft(stats, 'folder', unsafeFrom))
      const target = fs.readlinkSync(this.#tree.at(path), 'buffer')
      await this.#keepWhole(path, this.#draft(stats, 'link', unsafeFrom), stored(target))
    } catch (error) {
      this.#tree.forget()
      if (!gone.has(codeOf(error))) throw toldClosed(error, path)
      this.copied.delete(path)
    }
  }

  async #copyFile(path: string, unsafeFrom: number, level: number): Promise<void> {
    const fd = fs.openSync(this.#tree.at(path), fileFlags)
    try {
      const stats = fs.fstatSync(fd)
      if (!stats.isFile()) return
      this.#read += stats.size
      if (this.#read > this.#maxBytes) throw tooMuch(path)
      const draft = this.#draft(stats, 'file', unsafeFrom)
      if (stats.size <= wholeBytes) await this.#keepWhole(path, draft, packWhole(readAt(fd, 0, stats.size), level))
      else
        await this.#keepStream(
          path,
          { ...draft, deflated: looksPackable(fd, stats.size) },
          filler(fd, stats.size),
          level,
        )
    } finally {
      fs.closeSync(fd)
    }
  }

  async #keepWhole(path: string, draft: Copied, { bytes, ...packed }: Packed & { bytes: Buffer }): Promise<void> {
    await this.#keep(path, { ...draft, ...packed })
    await this.#out.write(bytes)
  }

  async #keepStream(path: string, draft: Copied, { fill, bytes }: Filler, level: number): Promise<void> {
    const entry = { ...draft, described: true, wide: bytes >= wideFromBytes }
    await this.#keep(path, entry)
    const packed = await (entry.deflated ? packStream(fill, level, this.#out) : storeStream(fill, this.#out))
    const whole = { ...entry, ...packed }
    this.copied.set(path, whole)
    await this.#out.write(dataDescriptor(zipEntry(path, whole)))
  }

  async #keep(path: string, entry: Copied): Promise<void> {
    this.copied.set(path, entry)
    await this.#out.write(localHeader(zipEntry(path, entry)))
  }

  #draft(stats: Stats, kind: Copied['kind'], unsafeFrom: number): Copied {
    const { ino, mode, mtimeMs: mtime, ctimeMs } = stats
    const ctime = ctimeMs >= unsafeFrom ? Number.NaN : ctimeMs
    const known = { kind, mode: mode & 0o777, mtime, ino, ctime, pass: this.#pass, offset: this.#out.position }
    return { ...known, deflated: false, described: false, wide: false, crc: 0, size: 0, packed: 0, sha256: '' }
  }
}

function tooMuch(path: string): SnapshotRefused {
  return new SnapshotRefused(
    `With ${textOf(path)} the files hold more than twice what their disk does: holes and names of one file count whole in a snapshot.`,
  )
}

/** A copied path as the archive's directory tells it. */
export function zipEntry(path: string, copied: Copied): ZipEntry {
  const name = Buffer.from(copied.kind === 'folder' ? `${path}/` : path, 'latin1')
  return { ...copied, name, mode: types[copied.kind] | copied.mode }
}

function isUnchanged(known: Copied, stats: Stats): boolean {
  if (known.ctime !== stats.ctimeMs || known.ino !== stats.ino || known.mtime !== stats.mtimeMs) return false
  return types[known.kind] === (stats.mode & constants.S_IFMT) && (known.kind === 'folder' || known.size === stats.size)
}

interface Filler {
  fill: Fill
  bytes: number
}

/** A file up to the length that it had when it was opened: one that grows has no end. */
function filler(fd: number, bytes: number): Filler {
  let at = 0
  return {
    bytes,
    fill(into) {
      const read = fs.readSync(fd, into, 0, Math.min(into.length, bytes - at), at)
      at += read
      return read
    },
  }
}

const sampleBytes = 16 * KiB
const mostSamples = 8
const goldenRatio = 0.618034

/** Files may be packed already, some of them only in places: one sample that shrinks is enough. They keep no even distance. */
function looksPackable(fd: number, size: number): boolean {
  const samples = Math.min(mostSamples, Math.ceil(size / (256 * KiB)))
  const places = Array.from({ length: samples }, (_, n) => Math.floor((size - sampleBytes) * ((n * goldenRatio) % 1)))
  return places.some(place => shrinks(readAt(fd, place, sampleBytes)))
}

const buffer = Buffer.allocUnsafeSlow(wholeBytes)

/** At most `wholeBytes`, good until the next call. */
function readAt(fd: number, from: number, bytes: number): Buffer {
  let length = 0
  for (let read = 1; read > 0 && length < bytes; length += read)
    read = fs.readSync(fd, buffer, length, bytes - length, from + length)
  return buffer.subarray(0, length)
}
