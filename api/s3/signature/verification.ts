import { type S3Code, S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Regions, s3Signatures } from '../../../policy/s3/s3-signatures.ts'
import { type Authorization, timeOfAmz } from './authorization.ts'
import type { SignedRequest } from './signed-request.ts'
import { canonicalRequests, type Scope, type Signer, sameSignature, sha256Hex, signature } from './signing.ts'

const { maxSkewMs } = s3Signatures

/**
 * Refuses a signature for another service, region or day, one that is too old or of the future, and one that leaves out headers that
 * it must cover. None of this needs the secret. `now` is in milliseconds since 1970.
 */
export function checkTerms(request: SignedRequest, authorization: Authorization, now: number): void {
  const { scope, time, signedHeaders, expiresSeconds } = authorization
  const refused = expiresSeconds === null ? 'AuthorizationHeaderMalformed' : 'AuthorizationQueryParametersError'
  checkScope(scope, refused)
  if (!time.startsWith(scope.date))
    throw new S3Error(refused, `The credential is of ${scope.date}, but the request was signed at ${time}.`)
  checkTime(authorization, now)
  if (!signedHeaders.includes('host')) throw new S3Error('AccessDenied', 'The signature must cover the header host.')
  const open = [...request.headerNames()].filter(name => name.startsWith('x-amz-') && !signedHeaders.includes(name))
  if (open.length > 0)
    throw new S3Error('AccessDenied', 'There are headers that the signature does not cover.', {
      HeadersNotSigned: open.join(', '),
    })
}

/** Throws `refused` for a credential of another service or region. */
export function checkScope({ service, region }: Scope, refused: S3Code): void {
  if (service !== 's3') throw new S3Error(refused, `The service of the credential must be s3, not ${service}.`)
  if (!s3Regions.includes(region))
    throw new S3Error(refused, `The region of the credential must be ${s3Regions[0]}, not ${region}.`, {
      Region: s3Regions[0]!,
    })
}

function checkTime({ time, expiresSeconds }: Authorization, now: number): void {
  const signedAt = timeOfAmz(time)
  if (Number.isNaN(signedAt)) throw new S3Error('AccessDenied', `There is no such time as ${time}.`)
  const ServerTime = new Date(now).toISOString()
  if (expiresSeconds === null) {
    if (Math.abs(now - signedAt) <= maxSkewMs) return
    const elements = { RequestTime: time, ServerTime, MaxAllowedSkewMilliseconds: String(maxSkewMs) }
    throw new S3Error('RequestTimeTooSkewed', undefined, elements)
  }
  if (signedAt - now > maxSkewMs) throw new S3Error('AccessDenied', 'Request is not valid yet', { ServerTime })
  const expiresAt = signedAt + expiresSeconds * 1000
  if (now <= expiresAt) return
  const elements = { 'X-Amz-Expires': String(expiresSeconds), Expires: new Date(expiresAt).toISOString(), ServerTime }
  throw new S3Error('AccessDenied', 'Request has expired', elements)
}

/** Verifies the signature of a request with the key of its scope. Returns what its chunks are verified with; a wrong one is SignatureDoesNotMatch. */
export function verifySignature(request: SignedRequest, authorization: Authorization, key: Buffer): Signer {
  const { scope, time, signedHeaders, payload } = authorization
  const signer = { key, scope, time }
  const canonical = canonicalRequests(request, signedHeaders, payload)
  for (const form of canonical.flatMap(encodings)) {
    const expected = signature(signer, 'AWS4-HMAC-SHA256', [sha256Hex(form)])
    if (sameSignature(expected, authorization.signature)) return signer
  }
  // As S3: what was signed here shows where the client differs.
  throw new S3Error('SignatureDoesNotMatch', undefined, {
    AWSAccessKeyId: authorization.accessKeyId,
    SignatureProvided: authorization.signature,
    CanonicalRequest: canonical[0]!,
  })
}

/** Some clients sign the bytes of their headers; others sign texts in UTF-8, and send them in Latin-1. */
const encodings = (form: string): Buffer[] =>
  /[^\x00-\x7f]/.test(form) ? [Buffer.from(form, 'latin1'), Buffer.from(form)] : [Buffer.from(form)]
