import { crc32, deflateRawSync } from 'node:zlib'

/** One entry, by default an honest one; every further field puts a chosen value, true or not, into the headers. */
export interface ZipEntry {
  path: string | Buffer
  data?: string | Buffer
  /** Unix mode with its type bits; regular 0644, or 0755 for names ending in `/`, when absent. */
  mode?: number
  /** 0 stored, 8 deflated (default when that is smaller), others as they come. */
  method?: number
  /** The bytes in the archive, in place of what `data` and `method` give. */
  body?: Buffer
  crc?: number
  size?: number
  compressedSize?: number
  /** General purpose flags; UTF-8 (bit 11) when absent and the name needs it. */
  flags?: number
  /** Who made it: 3 Unix (default), 0 FAT. */
  madeBy?: number
  extra?: Buffer
  /** Name in the local header, when another than in the directory. */
  localPath?: string | Buffer
  /** Offset of the local header, when another than the true one. */
  offset?: number
  /** Sizes and offset in a zip64 field, as tools write for large or streamed entries. */
  zip64?: boolean
}

export interface ZipOptions {
  comment?: Buffer
  /** Bytes before the first entry; offsets are corrected for them unless `rawOffsets`. */
  prefix?: Buffer
  rawOffsets?: boolean
  suffix?: Buffer
  zip64?: boolean
  /** Number of this disk, 0 in every archive of one file. */
  disk?: number
  /** Entry count that the end record claims. */
  count?: number
}

export type ZipContent = string | Buffer | Omit<ZipEntry, 'path'>

/** A zip archive of these files: `zipOf({ 'main.js': 'text', 'logo.png': buffer, 'run.sh': { data: '…', mode: 0o100755 } })`. */
export function zipOf(files: Record<string, ZipContent>, options: ZipOptions = {}): Buffer {
  const entries = Object.entries(files).map(([path, content]) =>
    typeof content === 'string' || Buffer.isBuffer(content) ? { path, data: content } : { path, ...content },
  )
  return zipOfEntries(entries, options)
}

/** The same from a list, for names that a record cannot hold: duplicates, raw bytes, numbers in order. */
export function zipOfEntries(entries: ZipEntry[], options: ZipOptions = {}): Buffer {
  const prefix = options.prefix ?? Buffer.alloc(0)
  const parts: Buffer[] = [prefix]
  const directory: Buffer[] = []
  let at = prefix.length
  for (const entry of entries) {
    const offset = (entry.offset ?? at) - (options.rawOffsets ? prefix.length : 0)
    const { local, central } = headers(entry, offset)
    parts.push(local)
    directory.push(central)
    at += local.length
  }
  const listing = Buffer.concat(directory)
  const start = at - (options.rawOffsets ? prefix.length : 0)
  return Buffer.concat([
    ...parts,
    listing,
    end(entries.length, listing.length, start, options),
    options.suffix ?? Buffer.alloc(0),
  ])
}

/** Lines of a configuration file by key; null = left out. */
export type ConfigKeys = Record<string, string | number | null>

/** The text of a configuration file, which `config` overrides by key. */
export function configText(config: ConfigKeys = {}): string {
  const settings = { DISPLAY_NAME: 'hello', MAIN: 'index.js', MEMORY: 256, VERSION: 'recommended', ...config }
  return Object.entries(settings)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')
}

/** A working node application's archive: one program and its configuration file, which `config` overrides by key. */
export function appZip(files: Record<string, ZipContent> = {}, config: ConfigKeys = {}): Buffer {
  return zipOf({
    'berth.app': configText(config),
    'index.js': program,
    'package.json': '{"name":"hello","version":"1.0.0"}',
    ...files,
  })
}

const program = `require('node:http').createServer((_, response) => response.end('hello')).listen(process.env.PORT ?? 80)\n`

const empty = deflateRawSync(Buffer.alloc(0))

function headers(entry: ZipEntry, offset: number): { local: Buffer; central: Buffer } {
  const name = Buffer.from(entry.path as string)
  const data = Buffer.from((entry.data ?? '') as string)
  const deflated = data.length > 0 ? deflateRawSync(data) : empty
  const method = entry.method ?? (deflated.length < data.length ? 8 : 0)
  const body = entry.body ?? (method === 8 ? deflated : data)
  const size = entry.size ?? data.length
  const compressedSize = entry.compressedSize ?? body.length
  const flags = entry.flags ?? (name.some(byte => byte > 127) && typeof entry.path === 'string' ? 0x800 : 0)
  const common = Buffer.alloc(26)
  common.writeUInt16LE(entry.zip64 ? 45 : 20, 0)
  common.writeUInt16LE(flags, 2)
  common.writeUInt16LE(method, 4)
  common.writeUInt32LE(0x5821_0000, 6)
  common.writeUInt32LE((entry.crc ?? crc32(data)) >>> 0, 10)
  common.writeUInt32LE(entry.zip64 ? 0xffff_ffff : compressedSize, 14)
  common.writeUInt32LE(entry.zip64 ? 0xffff_ffff : size, 18)

  const localName = entry.localPath === undefined ? name : Buffer.from(entry.localPath as string)
  const localExtra = entry.zip64 ? zip64Field(size, compressedSize) : Buffer.alloc(0)
  const localHead = Buffer.from(common)
  localHead.writeUInt16LE(localName.length, 22)
  localHead.writeUInt16LE(localExtra.length, 24)
  const local = Buffer.concat([u32(0x0403_4b50), localHead, localName, localExtra, body])

  const extra = Buffer.concat([
    entry.zip64 ? zip64Field(size, compressedSize, offset) : Buffer.alloc(0),
    entry.extra ?? Buffer.alloc(0),
  ])
  const head = Buffer.from(common)
  head.writeUInt16LE(name.length, 22)
  head.writeUInt16LE(extra.length, 24)
  const tail = Buffer.alloc(14)
  const mode = entry.mode ?? (name.at(-1) === 47 ? 0o040755 : 0o100644)
  tail.writeUInt32LE(((mode << 16) | (name.at(-1) === 47 ? 0x10 : 0)) >>> 0, 6)
  tail.writeUInt32LE(entry.zip64 ? 0xffff_ffff : offset, 10)
  const central = Buffer.concat([u32(0x0201_4b50), Buffer.from([45, entry.madeBy ?? 3]), head, tail, name, extra])
  return { local, central }
}

function zip64Field(...values: number[]): Buffer {
  const field = Buffer.alloc(4 + 8 * values.length)
  field.writeUInt16LE(1, 0)
  field.writeUInt16LE(8 * values.length, 2)
  for (const [index, value] of values.entries()) field.writeBigUInt64LE(BigInt(value), 4 + 8 * index)
  return field
}

function end(entries: number, length: number, start: number, options: ZipOptions): Buffer {
  const count = options.count ?? entries
  const comment = options.comment ?? Buffer.alloc(0)
  const zip64 = options.zip64 || count > 0xffff
  const record = Buffer.alloc(22)
  record.writeUInt32LE(0x0605_4b50, 0)
  record.writeUInt16LE(options.disk ?? 0, 4)
  record.writeUInt16LE(options.disk ?? 0, 6)
  record.writeUInt16LE(zip64 ? 0xffff : count, 8)
  record.writeUInt16LE(zip64 ? 0xffff : count, 10)
  record.writeUInt32LE(zip64 ? 0xffff_ffff : length, 12)
  record.writeUInt32LE(zip64 ? 0xffff_ffff : start, 16)
  record.writeUInt16LE(comment.length, 20)
  if (!zip64) return Buffer.concat([record, comment])
  return Buffer.concat([zip64End(count, length, start), record, comment])
}

function zip64End(count: number, length: number, start: number): Buffer {
  const record = Buffer.alloc(56)
  record.writeUInt32LE(0x0606_4b50, 0)
  record.writeBigUInt64LE(44n, 4)
  record.writeUInt16LE(45, 12)
  record.writeUInt16LE(45, 14)
  record.writeBigUInt64LE(BigInt(count), 24)
  record.writeBigUInt64LE(BigInt(count), 32)
  record.writeBigUInt64LE(BigInt(length), 40)
  record.writeBigUInt64LE(BigInt(start), 48)
  const locator = Buffer.alloc(20)
  locator.writeUInt32LE(0x0706_4b50, 0)
  locator.writeBigUInt64LE(BigInt(start + length), 8)
  locator.writeUInt32LE(1, 16)
  return Buffer.concat([record, locator])
}

function u32(value: number): Buffer {
  const buffer = Buffer.alloc(4)
  buffer.writeUInt32LE(value, 0)
  return buffer
}
