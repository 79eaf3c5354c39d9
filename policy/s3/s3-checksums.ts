import type { ChecksumAlgorithm } from '../../lib/checksums.ts'
import type { StoredChecksum } from './s3-facts.ts'

/** Algorithms of the S3 wire, with the bytes of their digests. */
export const digestBytes: Readonly<Record<ChecksumAlgorithm, number>> = {
  CRC32: 4,
  CRC32C: 4,
  CRC64NVME: 8,
  SHA1: 20,
  SHA256: 32,
}

export const checksumAlgorithms = Object.keys(digestBytes) as readonly ChecksumAlgorithm[]

/** The algorithm of this name, in any case; undefined for one that is not supported. */
export const algorithmNamed = (name: string): ChecksumAlgorithm | undefined =>
  checksumAlgorithms.find(algorithm => algorithm === name.toUpperCase())

/** The name of the header or trailer with a checksum. */
export const checksumHeader = (algorithm: ChecksumAlgorithm): string => `x-amz-checksum-${algorithm.toLowerCase()}`

/** The name of the element with a checksum. */
export const checksumElement = (algorithm: ChecksumAlgorithm): string => `Checksum${algorithm}`

/** The checksum of an object, in headers. */
export const checksumHeaders = (checksum: StoredChecksum | undefined): Record<string, string> =>
  checksum ? { [checksumHeader(checksum.algorithm)]: checksum.value, 'x-amz-checksum-type': checksum.type } : {}
