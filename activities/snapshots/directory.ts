import * as yauzl from 'yauzl'
import { nameText } from '../../lib/folders/disk-names.ts'
import { type ArchiveEntry, ArchiveFile, kindOf } from '../archives/directory.ts'
import { SnapshotCorrupt } from './port.ts'

/**
 * The directory of an archive that `zip.ts` wrote, entry by entry. Each character of a path is one byte
 * (lib/folders/tree.ts). Throws `SnapshotCorrupt`.
 */
export class SnapshotDirectory {
  readonly #file: ArchiveFile

  constructor(fd: number) {
    this.#file = new ArchiveFile(fd)
  }

  /** Entries without their `start`; see `located`. */
  async *entries(): AsyncGenerator<ArchiveEntry> {
    try {
      const { size } = this.#file
      const zip = await yauzl.fromRandomAccessReaderPromise(this.#file, size, {
        decodeStrings: false,
        autoClose: false,
      })
      for await (const raw of zip.eachEntry()) yield entryOf(raw)
    } catch (error) {
      throw error instanceof SnapshotCorrupt ? error : corrupt('it is cut off, or its directory is damaged')
    }
  }

  /** The entry with the offset of its content, from its local header. */
  located(entry: ArchiveEntry): ArchiveEntry {
    const { header: at, path, kind, compressedSize } = entry
    const head = this.#read(at, 30)
    const [nameLength, extraLength] = [head.readUInt16LE(26), head.readUInt16LE(28)]
    const name = this.#read(at + 30, nameLength).toString('latin1')
    if (head.readUInt32LE(0) !== 0x0403_4b50 || name !== (kind === 'folder' ? `${path}/` : path))
      corrupt(`${nameText(path)} is not where its directory says`)
    const start = at + 30 + nameLength + extraLength
    if (start + compressedSize > this.#file.size) corrupt('it is cut off')
    return { ...entry, start }
  }

  /** A copy, because the read window moves on. */
  #read(at: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length)
    if (this.#file.headers.fill(bytes, at) < length) corrupt('it is cut off')
    return bytes
  }
}

function entryOf(raw: yauzl.Entry): ArchiveEntry {
  const attributes = raw.externalFileAttributes >>> 16
  const kind = kindOf(attributes) ?? corrupt('its directory is damaged')
  const path = raw.fileNameRaw.toString('latin1')
  return {
    path: kind === 'folder' ? path.replace(/\/$/, '') : path,
    kind,
    mode: attributes & 0o777,
    deflated: raw.compressionMethod === 8,
    crc: raw.crc32,
    size: raw.uncompressedSize,
    compressedSize: raw.compressedSize,
    header: raw.relativeOffsetOfLocalHeader,
    start: 0,
  }
}

function corrupt(what: string): never {
  throw new SnapshotCorrupt(`The snapshot cannot be read: ${what}.`)
}
