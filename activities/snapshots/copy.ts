import * as fs from 'node:fs'
import { constants, type Stats } from 'node:fs'
import { KiB } from '../../lib/bytes.ts'
import { nameText, untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { codeOf, vanished } from '../../lib/folders/error-codes.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { type GrowingFile, readGrowing } from './growing.ts'
import type { ManifestLine } from './manifest.ts'
import type { ArchiveOutput } from './output.ts'
import { type Fill, type Packed, packStream, packWhole, shrinks, stored, storeStream, wholeBytes } from './pack.ts'
import { SnapshotRefused } from './port.ts'
import { unreadableRefused, walk } from './walk.ts'
import { dataDescriptor, localHeader, wideFromBytes, type ZipEntry } from './zip.ts'

/** The last copy of a path: its entry in the archive, and how to detect later changes. */
export type Copied = Omit<ManifestLine, 'path'> &
  Omit<ZipEntry, 'name' | 'mode'> & {
    ino: number
    /** ms since 1970; NaN, which equals nothing, when a later change might not alter it. */
    ctime: number
    /** The last pass that saw it. */
    pass: number
  }

/** Granularity of the file system's clock, in ms: a file that was written this recently may change again without a new time. */
const tickMs = 50

const foundEach = 1000

const types = { file: constants.S_IFREG, folder: constants.S_IFDIR, link: constants.S_IFLNK } as const

/** Copies a tree into an archive in several passes; each copies what changed since the previous one. */
export class TreeCopy {
  readonly copied = new Map<string, Copied>()
  readonly #tree: Tree
  readonly #out: ArchiveOutput
  readonly #maxBytes: number
  readonly #onFound: (files: number) => void
  #pass = 0
  #read = 0

  /** Reads at most `maxBytes` in a pass: a sparse file of one block may claim terabytes of zeros. `onFound` is called every 1,000 paths. */
  constructor(tree: Tree, out: ArchiveOutput, maxBytes: number, onFound: (files: number) => void) {
    this.#tree = tree
    this.#out = out
    this.#maxBytes = maxBytes
    this.#onFound = onFound
  }

  /**
   * Resolves to the bytes copied. `since` is when memory-mapped pages were last clean (ms since 1970). Only the first write
   * to a clean page updates a file's time, so files with a later time count as still being written to.
   */
  async pass({ since, level }: { since: number; level: number }): Promise<number> {
    const start = this.#out.position
    this.#pass++
    this.#read = 0
    for (const [path, stats] of walk(this.#tree)) {
      const previous = this.copied.get(path)
      if (previous && isUnchanged(previous, stats)) previous.pass = this.#pass
      else await this.#copy(path, stats, since - tickMs, level)
    }
    for (const [path, { pass }] of this.copied) if (pass < this.#pass) this.copied.delete(path)
    return this.#out.position - start
  }

  /** Copies a file that grows, to its end. The next pass copies it again if it was changed in another way. */
  async growing(file: GrowingFile, level: number): Promise<void> {
    const { path } = file
    const fd = fs.openSync(this.#tree.at(path), untrustedFileFlags)
    try {
      const began = fs.fstatSync(fd)
      if (file.isWhole || !began.isFile()) return await this.#copy(path, began, Number.POSITIVE_INFINITY, level)
      let at = 0
      const fill: Fill = into =>
        readGrowing(file, into, rest => {
          const read = fs.readSync(fd, rest, 0, rest.length, at)
          at += read
          return read
        })
      const draft = { ...this.#draft(began, 'file', Number.POSITIVE_INFINITY), deflated: !file.isPacked }
      await this.#addStream(path, draft, { fill, bytes: Number.POSITIVE_INFINITY }, level)
      const { mode, mtime, ctime } = this.#draft(fs.fstatSync(fd), 'file', Number.POSITIVE_INFINITY)
      this.copied.set(path, { ...this.copied.get(path)!, mode, mtime, ctime })
    } finally {
      fs.closeSync(fd)
    }
  }

  async #copy(path: string, stats: Stats, unsafeFrom: number, level: number): Promise<void> {
    try {
      if (stats.isFile()) return await this.#copyFile(path, unsafeFrom, level)
      if (stats.isDirectory()) return await this.#add(path, this.#draft(stats, 'folder', unsafeFrom))
      const target = fs.readlinkSync(this.#tree.at(path), 'buffer')
      await this.#addWhole(path, this.#draft(stats, 'link', unsafeFrom), stored(target))
    } catch (error) {
      this.#tree.forget()
      if (!vanished.has(codeOf(error))) throw unreadableRefused(error, path)
      this.copied.delete(path)
    }
  }

  async #copyFile(path: string, unsafeFrom: number, level: number): Promise<void> {
    const fd = fs.openSync(this.#tree.at(path), untrustedFileFlags)
    try {
      const stats = fs.fstatSync(fd)
      if (!stats.isFile()) return
      this.#read += stats.size
      if (this.#read > this.#maxBytes) throw tooMuch(path)
      const draft = this.#draft(stats, 'file', unsafeFrom)
      if (stats.size <= wholeBytes) await this.#addWhole(path, draft, packWhole(readAt(fd, 0, stats.size), level))
      else
        await this.#addStream(
          path,
          { ...draft, deflated: looksPackable(fd, stats.size) },
          filler(fd, stats.size),
          level,
        )
    } finally {
      fs.closeSync(fd)
    }
  }

  async #addWhole(path: string, draft: Copied, { bytes, ...packed }: Packed & { bytes: Buffer }): Promise<void> {
    await this.#add(path, { ...draft, ...packed })
    await this.#out.write(bytes)
  }

  async #addStream(path: string, draft: Copied, { fill, bytes }: Filler, level: number): Promise<void> {
    const entry = { ...draft, described: true, wide: bytes >= wideFromBytes }
    await this.#add(path, entry)
    const packed = await (entry.deflated ? packStream(fill, level, this.#out) : storeStream(fill, this.#out))
    const whole = { ...entry, ...packed }
    this.copied.set(path, whole)
    await this.#out.write(dataDescriptor(zipEntry(path, whole)))
  }

  async #add(path: string, entry: Copied): Promise<void> {
    this.copied.set(path, entry)
    if (this.copied.size % foundEach === 0) this.#onFound(this.copied.size)
    await this.#out.write(localHeader(zipEntry(path, entry)))
  }

  #draft(stats: Stats, kind: Copied['kind'], unsafeFrom: number): Copied {
    const { ino, mode, mtimeMs: mtime, ctimeMs } = stats
    const ctime = ctimeMs >= unsafeFrom ? Number.NaN : ctimeMs
    const traits = { kind, mode: mode & 0o777, mtime, ino, ctime, pass: this.#pass, offset: this.#out.position }
    return { ...traits, deflated: false, described: false, wide: false, crc: 0, size: 0, packed: 0, sha256: '' }
  }
}

function tooMuch(path: string): SnapshotRefused {
  return new SnapshotRefused(
    `With ${nameText(path)} the files exceed twice the size of their disk: in a snapshot, holes and further names of a file count in full.`,
  )
}

/** A copied path as an entry of the archive. */
export function zipEntry(path: string, copied: Copied): ZipEntry {
  const name = Buffer.from(copied.kind === 'folder' ? `${path}/` : path, 'latin1')
  return { ...copied, name, mode: types[copied.kind] | copied.mode }
}

function isUnchanged(copied: Copied, stats: Stats): boolean {
  if (copied.ctime !== stats.ctimeMs || copied.ino !== stats.ino || copied.mtime !== stats.mtimeMs) return false
  return (
    types[copied.kind] === (stats.mode & constants.S_IFMT) && (copied.kind === 'folder' || copied.size === stats.size)
  )
}

interface Filler {
  fill: Fill
  /** Infinite where that is not known. */
  bytes: number
}

/** Reads a file up to its length when it was opened: a growing file might never end. */
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
const maxSamples = 8
const goldenRatio = 0.618034

/**
 * Files may be compressed already, some only in parts: one sample that shrinks is enough. Samples are unevenly spaced, and none is in the
 * first sixteenth, which shrinks in formats that compress the rest.
 */
function looksPackable(fd: number, size: number): boolean {
  const first = Math.floor(size / 16)
  const samples = Math.min(maxSamples, Math.ceil(size / (256 * KiB)))
  const offsets = Array.from({ length: samples }, (_, n) =>
    Math.floor(first + (size - sampleBytes - first) * ((n * goldenRatio) % 1)),
  )
  return offsets.some(offset => shrinks(readAt(fd, offset, sampleBytes)))
}

const buffer = Buffer.allocUnsafeSlow(wholeBytes)

/** At most `wholeBytes`; valid until the next call. */
function readAt(fd: number, from: number, bytes: number): Buffer {
  let length = 0
  for (let read = 1; read > 0 && length < bytes; length += read)
    read = fs.readSync(fd, buffer, length, bytes - length, from + length)
  return buffer.subarray(0, length)
}
