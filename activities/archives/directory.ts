import { fstatSync, readSync } from 'node:fs'
import * as yauzl from 'yauzl'
import { KiB } from '../../lib/bytes.ts'
import { decodeName, entryPath, type NameFault, nameFault } from '../../policy/archives/archive-names.ts'
import { type ArchiveRules, isDropped } from '../../policy/archives/archive-rules.ts'
import { ArchiveTree } from '../../policy/archives/archive-tree.ts'
import { ArchiveRefused } from './port.ts'

/** An entry to unpack: where its bytes lie in the archive, and what the output must be. */
export interface ArchiveEntry {
  path: string
  kind: 'file' | 'folder' | 'link'
  /** Permission bits only. */
  mode: number
  deflated: boolean
  crc: number
  size: number
  compressedSize: number
  /** First bytes of its local header and of its data in the archive. */
  header: number
  start: number
}

// A map: the formatter miscounts octal keys of an object.
const modeTypes = new Map<number, ArchiveEntry['kind']>([
  [0o100000, 'file'],
  [0o040000, 'folder'],
  [0o120000, 'link'],
])

/** Kind of an entry by its mode; undefined for other kinds. */
export const kindOf = (attributes: number): ArchiveEntry['kind'] | undefined => modeTypes.get(attributes & 0o170000)

/** Systems (high byte of "version made by") whose tools write Unix modes and UTF-8 names. */
const unixSystems = new Set([3, 19])

/** The entries to unpack, checked as far as headers allow. Rejects with `ArchiveRefused`. */
export async function readDirectory(fd: number, rules: ArchiveRules): Promise<ArchiveEntry[]> {
  const entries: ArchiveEntry[] = []
  const tree = new ArchiveTree()
  const file = new ArchiveFile(fd)
  try {
    const zip = await yauzl.fromRandomAccessReaderPromise(file, file.size, { decodeStrings: false, autoClose: false })
    for await (const raw of zip.eachEntry()) {
      const entry = checkedEntry(raw, rules)
      if (!entry) continue
      throwFault(tree.add(entry.path, entry.kind === 'folder'))
      if (tree.size > rules.entries) refuse(`The archive contains over ${rules.entries} files and folders.`)
      entry.start = dataStart(file, raw)
      entries.push(entry)
    }
  } catch (error) {
    throw error instanceof ArchiveRefused
      ? error
      : new ArchiveRefused('INVALID_FILE', 'The file is not a zip archive, is cut off, or contradicts itself.')
  }
  if (entries.length === 0) refuse('The archive is empty.')
  refuseOverlap(entries)
  return entries
}

/** Null for a dropped entry. Names are checked first: links and unknown methods in dropped folders are harmless. */
function checkedEntry(raw: yauzl.Entry, rules: ArchiveRules): ArchiveEntry | null {
  const unix = unixSystems.has(raw.versionMadeBy >> 8)
  const name = decodeName({ bytes: raw.fileNameRaw, utf8: (raw.generalPurposeBitFlag & 0x800) !== 0, unix })
  if (name === null || name === '')
    throw new ArchiveRefused('INVALID_FILENAME', 'A name in the archive is empty or not UTF-8.')
  const located = entryPath(name)
  if ('code' in located) throw new ArchiveRefused(located.code, located.message)
  const { path, folder } = located
  if (path === '' || isDropped(path)) return null
  throwFault(nameFault(path))
  const attributes = raw.externalFileAttributes >>> 16
  const kind = folder ? 'folder' : attributes & 0o170000 ? kindOf(attributes) : 'file'
  if (kind === undefined || (kind === 'folder' && !folder)) refuse(`${path} is neither file nor folder.`)
  if (kind === 'link' && rules.links === 'refused') refuse(`${path} is a symbolic link.`)
  if (raw.generalPurposeBitFlag & 0x2041) refuse('The archive is encrypted.')
  if (raw.compressionMethod !== 0 && raw.compressionMethod !== 8)
    refuse(`${path} is compressed with a method other than deflate.`)
  if (folder && raw.uncompressedSize > 0) refuse(`${path} is a folder with content.`)
  const mode = unix && attributes & 0o777 ? attributes & 0o777 : kind === 'folder' ? 0o755 : 0o644
  const { crc32: crc, uncompressedSize: size, compressedSize, relativeOffsetOfLocalHeader: header } = raw
  return { path, kind, mode, deflated: raw.compressionMethod === 8, crc, size, compressedSize, header, start: 0 }
}

/** Reads the local header for the offset of the data; its sizes must not differ from the directory's. */
function dataStart(file: ArchiveFile, raw: yauzl.Entry): number {
  const header = Buffer.alloc(30)
  const at = raw.relativeOffsetOfLocalHeader
  if (file.headers.fill(header, at) < 30 || header.readUInt32LE(0) !== 0x0403_4b50)
    refuse('An entry of the archive is not where its directory says.')
  const agrees = (local: number, size: number) => local === size || local === 0 || local === 0xffff_ffff
  if (!agrees(header.readUInt32LE(18), raw.compressedSize) || !agrees(header.readUInt32LE(22), raw.uncompressedSize))
    refuse('An entry of the archive has two different sizes.')
  const start = at + 30 + header.readUInt16LE(26) + header.readUInt16LE(28)
  if (start + raw.compressedSize > file.size) refuse('The archive is cut off.')
  return start
}

/** Overlapping entries turn a small archive into a huge tree; no honest tool writes them. */
function refuseOverlap(entries: ArchiveEntry[]): void {
  const sorted = entries.toSorted((a, b) => a.header - b.header)
  if (sorted.some(({ header }, index) => index > 0 && header < endOf(sorted[index - 1]!)))
    refuse('Entries of the archive overlap.')
}

function endOf({ start, compressedSize }: ArchiveEntry): number {
  return start + compressedSize
}

function throwFault(fault: NameFault | null): void {
  if (fault) throw new ArchiveRefused(fault.code, fault.message)
}

function refuse(message: string): never {
  throw new ArchiveRefused('INVALID_FILE', message)
}

/**
 * Reads synchronously, because nothing else runs in this process, and through two windows: the directory is read in many small
 * neighbouring pieces, alternating with the local headers of small files.
 */
export class ArchiveFile extends yauzl.RandomAccessReader {
  readonly size: number
  readonly headers: ArchiveWindow
  readonly #directory: ArchiveWindow

  constructor(fd: number) {
    super()
    this.size = fstatSync(fd).size
    this.headers = new ArchiveWindow(fd)
    this.#directory = new ArchiveWindow(fd)
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    const read = this.#directory.fill(buffer.subarray(offset, offset + length), position)
    callback(read < length ? new Error('it is cut off') : null)
  }

  override close(callback: (error: Error | null) => void): void {
    callback(null)
  }
}

/** The last read part of the archive, always in the same buffer. */
class ArchiveWindow {
  readonly #fd: number
  readonly #bytes = Buffer.allocUnsafe(64 * KiB)
  #at = 0
  #length = 0

  constructor(fd: number) {
    this.#fd = fd
  }

  /** Returns the bytes read, fewer than requested at the end of the file. */
  fill(target: Buffer, position: number): number {
    if (target.length > this.#bytes.length) return readSync(this.#fd, target, 0, target.length, position)
    if (position < this.#at || position + target.length > this.#at + this.#length) {
      this.#length = readSync(this.#fd, this.#bytes, 0, this.#bytes.length, position)
      this.#at = position
    }
    return this.#bytes.copy(target, 0, position - this.#at, this.#length)
  }
}
