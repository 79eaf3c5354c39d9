import { MiB } from '../../../lib/bytes.ts'
import { CodedError } from '../../errors.ts'

/** Size of a part of a chunked upload, in bytes; the last one may be smaller. */
export const chunkBytes = { min: 5 * MiB, max: 32 * MiB } as const

/** Max concurrent parts of one account, over all its uploads (contract 9.5). */
export const partsInFlight = 6

/** Max parts of all open uploads of an account, of both wires: each is a row and a file, and every further part is compared with all of them. */
export const maxOpenParts = 70_000

/** A stored part of an open upload. */
export interface UploadPart {
  part: number
  segmentId: string
  /** Bytes. */
  size: number
  /** Hex. */
  md5: string
  /** Base64, of the algorithm of the upload; null when the part was sent without one. */
  checksum: string | null
}

/** Max size of a file in an upload with up to `maxParts` parts, in bytes. */
export const maxFileBytes = (maxParts: number, maxBytes: number): number =>
  Math.min(maxBytes, maxParts * chunkBytes.max)

/** The lowest part that is not stored; `parts` in order. */
export function nextPart(parts: readonly Pick<UploadPart, 'part'>[]): number {
  const gap = parts.findIndex(({ part }, i) => part !== i + 1)
  return gap === -1 ? parts.length + 1 : gap + 1
}

/** The parts of the complete file. Throws NO_CHUNKS_UPLOADED, INVALID_CHUNK_PART for a gap, CHUNK_TOO_SMALL. */
export function wholeParts(parts: readonly UploadPart[]): readonly UploadPart[] {
  const last = parts.at(-1)
  if (!last) throw new CodedError('NO_CHUNKS_UPLOADED')
  if (nextPart(parts) < last.part) throw new CodedError('INVALID_CHUNK_PART', `Part ${nextPart(parts)} is missing.`)
  const small = parts.find(({ part, size }) => part !== last.part && size < chunkBytes.min)
  if (small) throw new CodedError('CHUNK_TOO_SMALL', `Part ${small.part} is below 5 MB. Only the last part may be.`)
  return parts
}
