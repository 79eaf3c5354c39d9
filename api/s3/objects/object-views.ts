import type { ObjectRow } from '../../../db/objects/objects.ts'
import { checksumElement, checksumHeaders } from '../../../policy/s3/s3-checksums.ts'
import type { StoredChecksum } from '../../../policy/s3/s3-facts.ts'
import type { Reply } from '../../http/respond.ts'
import { emptyReply } from '../answers.ts'
import type { Xml } from '../xml.ts'

/** The checksum of a result, as elements. */
export const checksumElements = (checksum: StoredChecksum | undefined): Record<string, Xml> =>
  checksum ? { [checksumElement(checksum.algorithm)]: checksum.value, ChecksumType: checksum.type } : {}

export const quotedEtag = (etag: string): string => `"${etag}"`

/** When a rule deletes the object, in the form of S3's lifecycle. */
export const expirationHeaders = ({ expires_at }: Pick<ObjectRow, 'expires_at'>): Record<string, string> =>
  expires_at ? { 'x-amz-expiration': `expiry-date="${expires_at.toUTCString()}", rule-id="rule"` } : {}

/** How many parts an object was uploaded in, with which its ETag ends; undefined for one that came in one piece. */
export function partsCountOf({ etag }: Pick<ObjectRow, 'etag'>): number | undefined {
  const [, count] = /-(\d+)$/.exec(etag) ?? []
  return count === undefined ? undefined : Number(count)
}

/** The answer to a write. */
export const writtenReply = (object: Pick<ObjectRow, 'etag' | 's3' | 'expires_at'>): Reply =>
  emptyReply(200, {
    ETag: quotedEtag(object.etag),
    ...checksumHeaders(object.s3?.checksum),
    ...expirationHeaders(object),
  })
