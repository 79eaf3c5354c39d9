import { fstatSync } from 'node:fs'
import { textOf } from '../../lib/folders/disk-names.ts'
import { type ArchiveEntry, ArchiveWindow } from '../archives/directory.ts'
import { SnapshotCorrupt } from './port.ts'

const kinds = new Map<number, ArchiveEntry['kind']>([
  [0o100000, 'file'],
  [0o040000, 'folder'],
  [0o120000, 'link'],
])

/**
 * The directory of an archive that `zip.ts` wrote, entry by entry. Each character of a path stands for one byte
 * (lib/folders/tree.ts). Throws `SnapshotCorrupt`.
 */
export class SnapshotDirectory {
  readonly #file: ArchiveWindow
  readonly #headers: ArchiveWindow
  readonly #size: number
  readonly #entries: number
  readonly #start: number
  readonly #end: number

  constructor(fd: number) {
    this.#file = new ArchiveWindow(fd)
    this.#headers = new ArchiveWindow(fd)
    this.#size = fstatSync(fd).size
    const { entries, start, length } = this.#findEnd()
    this.#entries = entries
    this.#start = start
    this.#end = start + length
  }

  /** `start` is not known yet: see `located`. */
  *entries(): Generator<ArchiveEntry> {
    let at = this.#start
    for (let left = this.#entries; left > 0; left--) {
      const head = this.#read(at, 46)
      if (head.readUInt32LE(0) !== 0x0201_4b50) corrupt('its directory is damaged')
      const [nameLength, extraLength] = [head.readUInt16LE(28), head.readUInt16LE(30)]
      const rest = this.#read(at + 46, nameLength + extraLength)
      yield this.#entry(head, rest.subarray(0, nameLength), rest.subarray(nameLength))
      at += 46 + nameLength + extraLength
    }
    if (at !== this.#end) corrupt('its directory is damaged')
  }

  #entry(head: Buffer, name: Buffer, extra: Buffer): ArchiveEntry {
    const attributes = head.readUInt32LE(38) >>> 16
    const [packed, size, header] = [head.readUInt32LE(20), head.readUInt32LE(24), head.readUInt32LE(42)]
    const wide = wideValues(extra)
    const told = (value: number) =>
      value === 0xffff_ffff ? (wide.shift() ?? corrupt('its directory is damaged')) : value
    const sized = { size: told(size), compressedSize: told(packed), header: told(header) }
    const kind = kinds.get(attributes & 0o170000) ?? corrupt('its directory is damaged')
    const path = name.toString('latin1')
    return {
      ...sized,
      path: kind === 'folder' ? path.replace(/\/$/, '') : path,
      kind,
      mode: attributes & 0o777,
      deflated: head.readUInt16LE(10) === 8,
      crc: head.readUInt32LE(16),
      start: 0,
    }
  }

  /** The entry with the place of its content, which its own header tells. */
  located(entry: ArchiveEntry): ArchiveEntry {
    const { header: at, path, kind, compressedSize } = entry
    const head = this.#read(at, 30, this.#headers)
    const [nameLength, extraLength] = [head.readUInt16LE(26), head.readUInt16LE(28)]
    const name = this.#read(at + 30, nameLength, this.#headers).toString('latin1')
    if (head.readUInt32LE(0) !== 0x0403_4b50 || name !== (kind === 'folder' ? `${path}/` : path))
      corrupt(`${textOf(path)} is not where its directory says`)
    const start = at + 30 + nameLength + extraLength
    if (start + compressedSize > this.#start) corrupt('it is cut off')
    return { ...entry, start }
  }

  #findEnd(): { entries: number; start: number; length: number } {
    const end = this.#read(this.#size - 22, 22)
    if (end.readUInt32LE(0) !== 0x0605_4b50) corrupt('it is cut off')
    const told = { entries: end.readUInt16LE(10), length: end.readUInt32LE(12), start: end.readUInt32LE(16) }
    const locator = this.#size >= 42 ? this.#read(this.#size - 42, 20) : Buffer.alloc(20)
    if (locator.readUInt32LE(0) !== 0x0706_4b50) return told
    const wide = this.#read(Number(locator.readBigUInt64LE(8)), 56)
    if (wide.readUInt32LE(0) !== 0x0606_4b50) corrupt('its end is damaged')
    const [entries, length, start] = [32, 40, 48].map(at => Number(wide.readBigUInt64LE(at))) as [
      number,
      number,
      number,
    ]
    return { entries, length, start }
  }

  /** A copy, for the window moves on. */
  #read(at: number, length: number, window = this.#file): Buffer {
    const bytes = Buffer.allocUnsafe(length)
    if (at < 0 || at + length > this.#size || window.fill(bytes, at) < length) corrupt('it is cut off')
    return bytes
  }
}

function wideValues(extra: Buffer): number[] {
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue
    const field = extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2))
    return Array.from({ length: Math.floor(field.length / 8) }, (_, index) => Number(field.readBigUInt64LE(8 * index)))
  }
  return []
}

function corrupt(what: string): never {
  throw new SnapshotCorrupt(`The snapshot cannot be read: ${what}.`)
}
