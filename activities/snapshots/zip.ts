/** One entry of a zip archive. Offsets and sizes in bytes, `mtime` in ms since 1970. */
export interface ZipEntry {
  /** The bytes from the file system: names need not be UTF-8. Ends in `/` for a folder. */
  name: Buffer
  /** Type and permission bits. */
  mode: number
  mtime: number
  deflated: boolean
  /** A data descriptor with the sizes follows the content, because they were not known before. */
  described: boolean
  /** Sizes have 8 bytes each (zip64), also in the data descriptor. */
  wide: boolean
  crc: number
  size: number
  packed: number
  /** First byte of its local header. */
  offset: number
}

const utf8Names = 0x800
const sizesFollow = 0x8
const madeOnUnix = 3 << 8
const max = { short: 0xffff, long: 0xffff_ffff } as const

/** Sizes from here on are written wide, although packing may still shrink them: incompressible content grows a little. */
export const wideFromBytes = 0xff00_0000

/** Precedes the content. */
export function localHeader(entry: ZipEntry): Buffer {
  const { crc, size, packed, described, wide } = entry
  const sizes = described ? { crc: 0, size: 0, packed: 0 } : { crc, size, packed }
  const extra = Buffer.concat([timeField(entry.mtime), wide ? wideField([sizes.size, sizes.packed]) : none])
  const head = blank(30)
  head.writeUInt32LE(0x0403_4b50, 0)
  writeTraits(head, 4, entry)
  head.writeUInt32LE(sizes.crc, 14)
  head.writeUInt32LE(wide ? max.long : sizes.packed, 18)
  head.writeUInt32LE(wide ? max.long : sizes.size, 22)
  head.writeUInt16LE(entry.name.length, 26)
  head.writeUInt16LE(extra.length, 28)
  return Buffer.concat([head, entry.name, extra])
}

/** Follows the content of an entry that is `described`. */
export function dataDescriptor({ crc, size, packed, wide }: ZipEntry): Buffer {
  const head = blank(8)
  head.writeUInt32LE(0x0807_4b50, 0)
  head.writeUInt32LE(crc, 4)
  const sizes = blank(wide ? 16 : 8)
  if (wide) writeWide(sizes, 0, [packed, size])
  else {
    sizes.writeUInt32LE(packed, 0)
    sizes.writeUInt32LE(size, 4)
  }
  return Buffer.concat([head, sizes])
}

/** One record of the central directory. */
export function centralRecord(entry: ZipEntry): Buffer {
  const { crc, size, packed, offset, mode } = entry
  const large = [size, packed, offset].filter(value => value >= max.long)
  const extra = Buffer.concat([timeField(entry.mtime), large.length > 0 ? wideField(large) : none])
  const head = blank(46)
  head.writeUInt32LE(0x0201_4b50, 0)
  head.writeUInt16LE(madeOnUnix | 45, 4)
  writeTraits(head, 6, entry)
  head.writeUInt32LE(crc, 16)
  head.writeUInt32LE(Math.min(packed, max.long), 20)
  head.writeUInt32LE(Math.min(size, max.long), 24)
  head.writeUInt16LE(entry.name.length, 28)
  head.writeUInt16LE(extra.length, 30)
  head.writeUInt32LE((mode << 16) >>> 0, 38)
  head.writeUInt32LE(Math.min(offset, max.long), 42)
  return Buffer.concat([head, entry.name, extra])
}

/** The end of the archive, after a central directory of `length` bytes from `start`. */
export function endRecords(entries: number, start: number, length: number): Buffer {
  const end = blank(22)
  end.writeUInt32LE(0x0605_4b50, 0)
  end.writeUInt16LE(Math.min(entries, max.short), 8)
  end.writeUInt16LE(Math.min(entries, max.short), 10)
  end.writeUInt32LE(Math.min(length, max.long), 12)
  end.writeUInt32LE(Math.min(start, max.long), 16)
  if (entries < max.short && start < max.long && length < max.long) return end
  const wide = blank(56)
  wide.writeUInt32LE(0x0606_4b50, 0)
  writeWide(wide, 4, [44])
  wide.writeUInt16LE(madeOnUnix | 45, 12)
  wide.writeUInt16LE(45, 14)
  writeWide(wide, 24, [entries, entries, length, start])
  const locator = blank(20)
  locator.writeUInt32LE(0x0706_4b50, 0)
  writeWide(locator, 8, [start + length])
  locator.writeUInt32LE(1, 16)
  return Buffer.concat([wide, locator, end])
}

/** From the shared buffer pool: a tree has as many headers as files. */
const blank = (bytes: number): Buffer => Buffer.allocUnsafe(bytes).fill(0)

const none = Buffer.alloc(0)

/** Version, flags, method and the coarse time, with which both kinds of header start. */
function writeTraits(head: Buffer, at: number, { name, deflated, described, mtime }: ZipEntry): void {
  const time = dosTime(new Date(mtime))
  head.writeUInt16LE(45, at)
  head.writeUInt16LE((described ? sizesFollow : 0) | (isUtf8Text(name) ? utf8Names : 0), at + 2)
  head.writeUInt16LE(deflated ? 8 : 0, at + 4)
  head.writeUInt32LE(time, at + 6)
}

/** Names are declared as UTF-8 only when they are; others are stored as raw bytes. */
function isUtf8Text(name: Buffer): boolean {
  return name.some(byte => byte >= 0x80) && Buffer.from(name.toString('utf8')).equals(name)
}

/** The time in seconds since 1970, which Unix tools prefer to the coarse one. */
function timeField(mtime: number): Buffer {
  const field = blank(9)
  field.writeUInt16LE(0x5455, 0)
  field.writeUInt16LE(5, 2)
  field.writeUInt8(1, 4)
  field.writeInt32LE(Math.max(-0x8000_0000, Math.min(Math.floor(mtime / 1000), 0x7fff_ffff)), 5)
  return field
}

function wideField(values: number[]): Buffer {
  const field = blank(4 + 8 * values.length)
  field.writeUInt16LE(1, 0)
  field.writeUInt16LE(8 * values.length, 2)
  writeWide(field, 4, values)
  return field
}

function writeWide(into: Buffer, at: number, values: number[]): void {
  for (const [index, value] of values.entries()) into.writeBigUInt64LE(BigInt(value), at + 8 * index)
}

/** Resolution of 2 seconds, from 1980 on, without a time zone. */
function dosTime(date: Date): number {
  const year = Math.min(Math.max(date.getUTCFullYear(), 1980), 2107)
  const day = ((year - 1980) << 9) | ((date.getUTCMonth() + 1) << 5) | date.getUTCDate()
  const clock = (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1)
  return ((day << 16) | clock) >>> 0
}
