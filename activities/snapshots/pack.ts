import { createHash, hash } from 'node:crypto'
import { constants, crc32, createDeflateRaw, deflateRawSync, type ZlibOptions } from 'node:zlib'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB } from '../../lib/bytes.ts'
import type { ArchiveOutput } from './output.ts'

/** Fills the buffer from its start with the next content; returns the bytes, or a promise of them, 0 at the end. */
export type Fill = (into: Buffer) => number | Promise<number>

/** Result of packing one content. `sha256` in hex. */
export interface Packed {
  crc: number
  sha256: string
  size: number
  packed: number
}

/** Deflate levels: the default of `zip`, and the fastest while a program is frozen and for dumps, which are as large as a database. */
export const levels = { usual: 6, fastest: 1 } as const

/** Content up to this size is packed in one piece. */
export const wholeBytes = 64 * KiB
const pieceBytes = 256 * KiB

/** A window no larger than the content: setting up the tables of a larger one takes longer than packing a small file. */
const windowBitsOf = (bytes: number): number => Math.min(Math.max(Math.ceil(Math.log2(bytes + 1)), 9), 15)

/** Stores content in memory uncompressed. */
export function stored(bytes: Buffer): Packed & { bytes: Buffer; deflated: boolean } {
  const { length: size } = bytes
  return { crc: crc32(bytes), sha256: hash('sha256', bytes), size, packed: size, bytes, deflated: false }
}

/** Packs content in memory; content that does not shrink is stored. */
export function packWhole(content: Buffer, level: number): Packed & { bytes: Buffer; deflated: boolean } {
  const windowBits = windowBitsOf(content.length)
  const options = { level, windowBits, memLevel: Math.max(windowBits - 7, 4), chunkSize: Math.max(content.length, 64) }
  const bytes = deflateRawSync(content, options)
  const plain = stored(content)
  return bytes.length < content.length ? { ...plain, packed: bytes.length, bytes, deflated: true } : plain
}

/** Whether a sample of a file suggests that packing it is worth the time. */
export function shrinks(sample: Buffer): boolean {
  return deflateRawSync(sample, { level: 1 }).length < sample.length * 0.97
}

/**
 * Whether looking for repetitions is of no use to these bytes, as in text of random digits: without it the fastest level takes a quarter of the
 * time (5 instead of 19 ms for each MB), and what it makes of them is smaller.
 */
function repeatsNothing(piece: Buffer): boolean {
  const sample = piece.subarray(0, sampleBytes)
  const length = (options: ZlibOptions) => deflateRawSync(sample, { level: 1, ...options }).length
  return length({ strategy: constants.Z_HUFFMAN_ONLY }) < length({})
}

const sampleBytes = 16 * KiB
const samplePieces = 4

/** Packs content of any length: each piece is read and hashed while the previous one is deflated in another thread. */
export async function packStream(fill: Fill, level: number, out: ArchiveOutput): Promise<Packed> {
  const deflate = createDeflateRaw({ level, memLevel: 9, chunkSize: pieceBytes })
  let pieces = 0
  let isPlain = true
  /** At the fastest level, of each MB by itself: a dump has tables of all kinds. */
  async function choose(piece: Buffer): Promise<void> {
    if (level !== levels.fastest || pieces++ % samplePieces > 0 || repeatsNothing(piece) !== isPlain) return
    isPlain = !isPlain
    const strategy = isPlain ? constants.Z_DEFAULT_STRATEGY : constants.Z_HUFFMAN_ONLY
    await new Promise<void>(done => deflate.params(level, strategy, done))
  }
  let packed = 0
  const drained = (async () => {
    for await (const piece of deflate) {
      packed += piece.length
      await out.write(piece)
    }
  })()
  const push = async (piece: Buffer) => {
    await choose(piece)
    await new Promise<void>((done, failed) => deflate.write(piece, error => (error ? failed(error) : done())))
  }
  try {
    const measured = await pipeline(fill, push)
    deflate.end()
    await drained
    return { ...measured, packed }
  } catch (error) {
    deflate.destroy()
    await drained.catch(ignoreError('the error that led here is thrown'))
    throw error
  }
}

/** Stores content of any length uncompressed. */
export async function storeStream(fill: Fill, out: ArchiveOutput): Promise<Packed> {
  const measured = await pipeline(fill, piece => out.write(piece))
  return { ...measured, packed: measured.size }
}

const buffers = [Buffer.allocUnsafeSlow(pieceBytes), Buffer.allocUnsafeSlow(pieceBytes)] as const

/** Two buffers: one is filled and hashed while the other is written. */
async function pipeline(fill: Fill, write: (piece: Buffer) => Promise<void>): Promise<Omit<Packed, 'packed'>> {
  const sha256 = createHash('sha256')
  let [crc, size] = [0, 0]
  let written = Promise.resolve()
  for (let n = 0; ; n++) {
    const buffer = buffers[n % 2]!
    const filled = fill(buffer)
    const piece = buffer.subarray(0, typeof filled === 'number' ? filled : await filled)
    if (piece.length === 0) break
    crc = crc32(piece, crc)
    sha256.update(piece)
    size += piece.length
    await written
    written = write(piece)
    written.catch(ignoreError('reported when it is awaited'))
  }
  await written
  return { crc, sha256: sha256.digest('hex'), size }
}
