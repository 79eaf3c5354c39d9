import { readSync } from 'node:fs'
import { Readable } from 'node:stream'
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib'
import { KiB, MiB } from '../../lib/bytes.ts'
import type { ArchiveRules } from '../../policy/archives/archive-rules.ts'
import type { ArchiveEntry } from './directory.ts'
import { ArchiveRefused } from './port.ts'

/** Up to these sizes an entry is inflated in one call, which makes thousands of small files cheap. */
const wholeBytes = { compressed: 256 * KiB, size: MiB }

const chunkBytes = 64 * KiB

/** Counts the actual output of one archive and stops it at the caps, whatever the headers say. */
export class OutputMeter {
  bytes = 0
  readonly #rules: ArchiveRules
  readonly #compressed: number

  constructor(rules: ArchiveRules, entries: ArchiveEntry[]) {
    this.#rules = rules
    this.#compressed = entries.reduce((sum, entry) => sum + entry.compressedSize, 0)
  }

  /** `entryBytes` is the output of this entry so far, `bytes` the new part of it. */
  count(entry: ArchiveEntry, entryBytes: number, bytes: number): void {
    const { outputBytes, ratio, ratioAfterBytes } = this.#rules
    this.bytes += bytes
    if (this.bytes > outputBytes) refuse(`The archive unpacks to over ${outputBytes} bytes.`)
    const bomb = (output: number, input: number) => output > ratioAfterBytes && output > ratio * input
    if (bomb(entryBytes, entry.compressedSize) || bomb(this.bytes, this.#compressed))
      refuse(`The archive unpacks to over ${ratio} times its size.`)
    if (entryBytes > entry.size) refuseEntry(entry, moreBytes)
  }
}

/** The content of an entry in pieces; length and CRC are verified after the last one. Rejects with `ArchiveRefused`. */
export async function* contentOf(fd: number, entry: ArchiveEntry, meter: OutputMeter): AsyncGenerator<Buffer> {
  let bytes = 0
  let crc = 0
  for await (const piece of pieces(fd, entry)) {
    bytes += piece.length
    meter.count(entry, bytes, piece.length)
    crc = crc32(piece, crc)
    yield piece
  }
  if (bytes !== entry.size) refuseEntry(entry, 'has fewer bytes than the archive says')
  if (crc !== entry.crc) refuseEntry(entry, 'is damaged: its checksum is wrong')
}

async function* pieces(fd: number, entry: ArchiveEntry): AsyncGenerator<Buffer> {
  if (!entry.deflated) return yield* stored(fd, entry)
  try {
    if (entry.compressedSize <= wholeBytes.compressed && entry.size <= wholeBytes.size) yield inflateWhole(fd, entry)
    else yield* inflateStream(fd, entry)
  } catch (error) {
    if (error instanceof ArchiveRefused) throw error
    // The library's messages are about buffers and blocks, which mean nothing to the sender of an archive.
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'ERR_BUFFER_TOO_LARGE') refuseEntry(entry, moreBytes)
    if (code.startsWith('Z_')) refuseEntry(entry, 'is damaged')
    throw error
  }
}

function inflateWhole(fd: number, entry: ArchiveEntry): Buffer {
  const packed = Buffer.concat([...stored(fd, entry)])
  // One byte over the declared size is enough to detect a wrong size. `info` reports how much of the input was used.
  const result = inflateRawSync(packed, { maxOutputLength: entry.size + 1, info: true }) as unknown as Inflated
  if (result.engine.bytesWritten !== packed.length) refuseEntry(entry, 'has bytes after its end')
  return result.buffer
}

interface Inflated {
  buffer: Buffer
  engine: { bytesWritten: number }
}

async function* inflateStream(fd: number, entry: ArchiveEntry): AsyncGenerator<Buffer> {
  const inflate = createInflateRaw({ chunkSize: chunkBytes })
  const source = Readable.from(stored(fd, entry), { objectMode: false, highWaterMark: chunkBytes })
  source.on('error', error => inflate.destroy(error)).pipe(inflate)
  try {
    for await (const piece of inflate) yield piece as Buffer
    if (inflate.bytesWritten !== entry.compressedSize) refuseEntry(entry, 'has bytes after its end')
  } finally {
    source.destroy()
  }
}

function* stored(fd: number, entry: ArchiveEntry): Generator<Buffer> {
  for (let at = 0; at < entry.compressedSize; ) {
    const piece = Buffer.allocUnsafe(Math.min(chunkBytes, entry.compressedSize - at))
    const read = readSync(fd, piece, 0, piece.length, entry.start + at)
    if (read === 0) refuse('The archive is cut off.')
    at += read
    yield piece.subarray(0, read)
  }
}

const moreBytes = 'has more bytes than the archive says'

function refuseEntry({ path }: ArchiveEntry, what: string): never {
  refuse(`${path} ${what}. Create the archive again.`)
}

function refuse(message: string): never {
  throw new ArchiveRefused('INVALID_FILE', message)
}
