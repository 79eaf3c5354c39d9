import type { ChecksumAlgorithm } from '../../lib/checksums.ts'

/** A checksum that a client sent, verified against the stored bytes. */
export interface StoredChecksum {
  algorithm: ChecksumAlgorithm
  /** Base64; of a composite checksum with `-` and the number of parts, as S3 shows it. */
  value: string
  /** COMPOSITE = the checksum of the checksums of the parts. */
  type: ChecksumType
}

type ChecksumType = 'FULL_OBJECT' | 'COMPOSITE'

/** What the S3 wire stores with an object in addition to the Blob API. */
export interface S3Facts {
  contentEncoding?: string
  contentLanguage?: string
  /** The header `Expires`, as it was sent. */
  expires?: string
  checksum?: StoredChecksum
  tags?: Record<string, string>
}

/** What an open multipart upload stores for its object: a checksum is only announced. */
export interface UploadFacts extends Omit<S3Facts, 'checksum'> {
  checksum?: Pick<StoredChecksum, 'algorithm' | 'type'>
}
