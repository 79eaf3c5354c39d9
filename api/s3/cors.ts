import type { Config } from '../../policy/config.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import type { Services } from '../services.ts'

/** Headers of S3 that a page may read. */
const exposed = [
  'Accept-Ranges, Content-Range, ETag, x-amz-request-id, x-amz-id-2, x-amz-version-id, x-amz-mp-parts-count',
  'x-amz-checksum-crc32, x-amz-checksum-crc32c, x-amz-checksum-crc64nvme, x-amz-checksum-sha1, x-amz-checksum-sha256',
].join(', ')

/** The headers for a page of another origin, if the setting S3_CORS_ORIGINS allows it for the bucket; undefined otherwise. */
export function corsHeaders(
  { request }: Exchange,
  bucket: string | null,
  { config }: Services,
): Record<string, string> | undefined {
  const { origin } = request.headers
  const allowed = bucket === null ? undefined : allowedOrigins(bucket, config)
  if (origin === undefined || !allowed) return undefined
  const isAny = allowed.includes('*')
  if (!isAny && !allowed.includes(origin)) return undefined
  return {
    'Access-Control-Allow-Origin': isAny ? '*' : origin,
    'Access-Control-Expose-Headers': exposed,
    // A cache must not give the answer for one origin to another.
    ...(!isAny && { Vary: 'Origin' }),
  }
}

/** The origins of a bucket in the setting. Its name may be that of a property which every object has, such as `constructor`. */
export const allowedOrigins = (
  bucket: string,
  { blob: { s3 } }: Pick<Config, 'blob'>,
): readonly string[] | undefined => (Object.hasOwn(s3.corsOrigins, bucket) ? s3.corsOrigins[bucket] : undefined)

/** The answer to a preflight, which is not signed. 403 when the bucket does not allow the origin. */
export function preflight({ request }: Exchange, allowed: Record<string, string> | undefined): Reply {
  if (!allowed) return { status: 403 }
  return {
    status: 200,
    headers: {
      'Access-Control-Allow-Methods': 'GET, HEAD, PUT, POST, DELETE',
      'Access-Control-Allow-Headers': request.headers['access-control-request-headers'] ?? '',
      'Access-Control-Max-Age': '3600',
    },
  }
}
