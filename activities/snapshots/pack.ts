import { createHash, hash } from 'node:crypto'
import { crc32, createDeflateRaw, deflateRawSync } from 'node:zlib'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB } from '../../lib/bytes.ts'
import type { ArchiveOutput } from './output.ts'

/** Content as it comes: fills the buffer from its start and tells how much there was, 0 at the end. */
export type Fill = (into: Buffer) => number

/** What came of packing one content. `sha256` in hex. */
export interface Packed {
  crc: number
  sha256: string
  size: number
  packed: number
}

/** Content up to this size is packed in one piece. */
export const wholeBytes = 64 * KiB
const pieceBytes = 256 * KiB

/** A window no larger than the content: the larger one's tables take longer to set up than a small file to pack. */
const windowBitsOf = (bytes: number): number => Math.min(Math.max(Math.ceil(Math.log2(bytes + 1)), 9), 15)

/** Content in memory as it is. */
export function stored(bytes: Buffer): Packed & { bytes: Buffer; deflated: boolean } {
  const { length: size } = bytes
  return { crc: crc32(bytes), sha256: hash('sha256', bytes), size, packed: size, bytes, deflated: false }
}

/** Packs content in memory; what does not become smaller stays as it is. */
export function packWhole(content: Buffer, level: number): Packed & { bytes: Buffer; deflated: boolean } {
  const windowBits = windowBitsOf(content.length)
  const options = { level, windowBits, memLevel: Math.max(windowBits - 7, 4), chunkSize: Math.max(content.length, 64) }
  const bytes = deflateRawSync(content, options)
  const plain = stored(content)
  return bytes.length < content.length ? { ...plain, packed: bytes.length, bytes, deflated: true } : plain
}

/** Whether a piece of a file tells that packing it is worth the time. */
export function shrinks(sample: Buffer): boolean {
  return deflateRawSync(sample, { level: 1 }).length < sample.length * 0.97
}

/** Packs content of any length: one piece is read and hashed while the one before is deflated in another thread. */
export async function packStream(fill: Fill, level: number, out: ArchiveOutput): Promise<Packed> {
  const deflate = createDeflateRaw({ level, memLevel: 9, chunkSize: pieceBytes })
  let packed = 0
  const drained = (async () => {
    for await (const piece of deflate) {
      packed += piece.length
      await out.write(piece)
    }
  })()
  const push = (piece: Buffer) =>
    new Promise<void>((taken, failed) => deflate.write(piece, error => (error ? failed(error) : taken())))
  try {
    const measured = await inTurns(fill, push)
    deflate.end()
    await drained
    return { ...measured, packed }
  } catch (error) {
    deflate.destroy()
    await drained.catch(ignoreError('the error that led here is thrown'))
    throw error
  }
}

/** Content as it is. */
export async function storeStream(fill: Fill, out: ArchiveOutput): Promise<Packed> {
  const measured = await inTurns(fill, piece => out.write(piece))
  return { ...measured, packed: measured.size }
}

const buffers = [Buffer.allocUnsafeSlow(pieceBytes), Buffer.allocUnsafeSlow(pieceBytes)] as const

/** Two buffers: one is filled and measured while the other is taken. */
async function inTurns(fill: Fill, take: (piece: Buffer) => Promise<void>): Promise<Omit<Packed, 'packed'>> {
  const sha256 = createHash('sha256')
  let [crc, size] = [0, 0]
  let taken = Promise.resolve()
  for (let turn = 0; ; turn++) {
    const buffer = buffers[turn % 2]!
    const piece = buffer.subarray(0, fill(buffer))
    if (piece.length === 0) break
    crc = crc32(piece, crc)
    sha256.update(piece)
    size += piece.length
    await taken
    taken = take(piece)
    taken.catch(ignoreError('reported when it is awaited'))
  }
  await taken
  return { crc, sha256: sha256.digest('hex'), size }
}
