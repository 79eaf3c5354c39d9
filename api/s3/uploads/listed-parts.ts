import type { UploadRow } from '../../../db/objects/uploads/uploads.ts'
import type { ChecksumAlgorithm } from '../../../lib/checksums.ts'
import type { UploadPart } from '../../../policy/objects/uploads/chunked.ts'
import { checksumAlgorithms, checksumElement } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { childrenOf, childText, type XmlElement } from '../xml-in.ts'

/** A part as the client lists it when it completes an upload. */
export interface ListedPart {
  part: number
  /** Hex, without quotes. */
  etag: string
  /** Base64, by algorithm. */
  checksums: Partial<Record<ChecksumAlgorithm, string>>
}

/** The parts of a document, in their order. Throws MalformedXML, and InvalidPartOrder unless their numbers ascend. */
export function listedParts(document: XmlElement): ListedPart[] {
  const parts = childrenOf(document, 'Part').map(listedPart)
  if (parts.length === 0 || parts.length > s3Limits.parts) throw new S3Error('MalformedXML')
  if (parts.some(({ part }, n) => n > 0 && part <= parts[n - 1]!.part)) throw new S3Error('InvalidPartOrder')
  return parts
}

function listedPart(element: XmlElement): ListedPart {
  const [number, etag] = [childText(element, 'PartNumber')?.trim() ?? '', childText(element, 'ETag')]
  if (!/^\d{1,5}$/.test(number) || etag === undefined) throw new S3Error('MalformedXML')
  const pairs = checksumAlgorithms.flatMap(algorithm => {
    const value = childText(element, checksumElement(algorithm))
    return value === undefined ? [] : [[algorithm, value.trim()] as const]
  })
  return {
    part: Number(number),
    etag: etag
      .trim()
      .replace(/^"(.*)"$/, '$1')
      .toLowerCase(),
    checksums: Object.fromEntries(pairs),
  }
}

/** Picks the stored parts that a client lists. Throws InvalidPart for one that is missing or differs, EntityTooSmall and EntityTooLarge. */
export function chooseParts(
  listed: readonly ListedPart[],
  stored: readonly UploadPart[],
  { s3, max_bytes }: Pick<UploadRow, 's3' | 'max_bytes'>,
): UploadPart[] {
  const byNumber = new Map(stored.map(part => [part.part, part]))
  const algorithm = s3?.checksum?.algorithm
  const chosen = listed.map(({ part: number, etag, checksums }) => {
    const part = byNumber.get(number)
    const stated = algorithm && checksums[algorithm]
    if (part?.md5 !== etag || (stated !== undefined && stated !== part.checksum))
      throw new S3Error('InvalidPart', undefined, { PartNumber: String(number) })
    return part
  })
  const small = chosen.slice(0, -1).find(({ size }) => size < s3Limits.minPartBytes)
  if (small)
    throw new S3Error('EntityTooSmall', undefined, {
      PartNumber: String(small.part),
      ProposedSize: String(small.size),
      MinSizeAllowed: String(s3Limits.minPartBytes),
    })
  if (chosen.reduce((sum, { size }) => sum + size, 0) > max_bytes) throw new S3Error('EntityTooLarge')
  return chosen
}
