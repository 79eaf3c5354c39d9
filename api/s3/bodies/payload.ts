import type { ChecksumAlgorithm } from '../../../lib/checksums.ts'
import { algorithmNamed, checksumAlgorithms, digestBytes } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { Authorization } from '../signature/authorization.ts'
import type { ChunkTerms } from '../signature/chunked-body.ts'
import type { SignedRequest } from '../signature/signed-request.ts'
import type { Signer } from '../signature/signing.ts'

/** How the body of a request arrives, and what must be true of its bytes. */
export interface Payload {
  /** Bytes without the frames of chunks, as the headers state; null = a form does not state them. */
  length: number | null
  /** Null = the body has no frames. */
  chunks: ChunkTerms | null
  /** Hex; null = not stated. */
  sha256: string | null
  md5: string | null
  checksum: StatedChecksum | null
}

/** A checksum that the client has calculated. */
export interface StatedChecksum {
  algorithm: ChecksumAlgorithm
  /** Base64; null = it is in a trailer. */
  value: string | null
  /** False: the client states none, and it is only calculated. */
  isStated?: false
}

const signedChunks = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'
const unsigned = 'UNSIGNED-PAYLOAD'
const unsignedChunks = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'

/** A body whose length is stated in the headers. */
export type SizedPayload = Payload & { length: number }

/** What a body is stated to be. Throws MissingContentLength, InvalidDigest, InvalidRequest, InvalidArgument and NotImplemented. */
export function payloadOf(
  { header, headerNames }: SignedRequest,
  { payload, signature }: Pick<Authorization, 'payload' | 'signature'>,
  signer: Signer,
): SizedPayload {
  const sha256 = /^[0-9a-f]{64}$/i.test(payload) ? payload.toLowerCase() : null
  const isChunked = payload.startsWith('STREAMING-')
  if (/^STREAMING-AWS4-ECDSA-/.test(payload)) throw new S3Error('NotImplemented', 'ECDSA signatures are not supported.')
  const isSupported =
    sha256 !== null || [unsigned, unsignedChunks, signedChunks, `${signedChunks}-TRAILER`].includes(payload)
  if (!isSupported)
    throw new S3Error(
      'InvalidArgument',
      'x-amz-content-sha256 must be a SHA-256 in hex, or the name of how the body is signed.',
    )
  const length = lengthOf(header(isChunked ? 'x-amz-decoded-content-length' : 'content-length'))
  const trailers = payload.endsWith('-TRAILER') ? trailersOf(header('x-amz-trailer')) : []
  const signed = payload.startsWith(signedChunks) ? { signer, seed: signature } : null
  return {
    length,
    chunks: isChunked ? { length, signed, trailers } : null,
    sha256,
    md5: md5Of(header('content-md5')[0]),
    checksum: checksumOf(header, headerNames(), trailers),
  }
}

function lengthOf([value, ...more]: readonly string[]): number {
  if (value === undefined) throw new S3Error('MissingContentLength')
  if (more.length > 0 || !/^\d{1,15}$/.test(value.trim()))
    throw new S3Error('InvalidArgument', 'The length of the body must be a whole number of bytes.')
  return Number(value)
}

/** Only a checksum may follow the body. */
function trailersOf(values: readonly string[]): string[] {
  const names = values
    .flatMap(value => value.split(','))
    .map(name => name.trim().toLowerCase())
    .filter(name => name !== '')
  if (names.some(name => algorithmOf(name) === undefined) || names.length > 1)
    throw new S3Error('InvalidRequest', 'x-amz-trailer must name one supported x-amz-checksum header.')
  return names
}

/** Content-MD5 as hex. Throws InvalidDigest unless it is the base64 of 16 bytes. */
export function md5Of(value: string | undefined): string | null {
  if (value === undefined) return null
  if (!/^[A-Za-z0-9+/]{22}==$/.test(value.trim())) throw new S3Error('InvalidDigest')
  return Buffer.from(value, 'base64').toString('hex')
}

/** The algorithm of a header `x-amz-checksum-...`; undefined for other headers. */
function algorithmOf(name: string): ChecksumAlgorithm | undefined {
  const [, algorithm = ''] = /^x-amz-checksum-(\w+)$/.exec(name) ?? []
  return algorithmNamed(algorithm)
}

const settings = new Set(['x-amz-checksum-algorithm', 'x-amz-checksum-type', 'x-amz-checksum-mode'])

/** The checksum that headers state or announce. Throws InvalidRequest for several, unknown and malformed ones. */
export function checksumOf(
  header: SignedRequest['header'],
  names: Iterable<string>,
  trailers: readonly string[] = [],
): StatedChecksum | null {
  const stated = [...names].filter(name => name.startsWith('x-amz-checksum-') && !settings.has(name))
  if (stated.length + trailers.length > 1)
    throw new S3Error('InvalidRequest', 'A request must have one checksum, in a header or in a trailer.')
  const requested = header('x-amz-sdk-checksum-algorithm')[0]
  const name = stated[0] ?? trailers[0]
  if (name === undefined) {
    if (requested !== undefined && algorithmNamed(requested) === undefined) throw unknownAlgorithm(requested)
    return null
  }
  const algorithm = algorithmOf(name)
  if (algorithm === undefined) throw unknownAlgorithm(name)
  if (requested !== undefined && algorithmNamed(requested) !== algorithm)
    throw new S3Error('InvalidRequest', 'x-amz-sdk-checksum-algorithm names another algorithm than the checksum.')
  if (stated.length === 0) return { algorithm, value: null }
  return { algorithm, value: checkedDigest(algorithm, header(name)[0]!.trim(), name) }
}

/** Throws InvalidRequest unless a text is the base64 of a digest of the algorithm. */
function checkedDigest(algorithm: ChecksumAlgorithm, value: string, name: string): string {
  const bytes = Buffer.from(value, 'base64')
  if (bytes.length !== digestBytes[algorithm] || bytes.toString('base64') !== value)
    throw new S3Error('InvalidRequest', `Value for ${name} header is invalid.`)
  return value
}

const unknownAlgorithm = (name: string): S3Error =>
  new S3Error('InvalidRequest', `${name}: supported checksums are ${checksumAlgorithms.join(', ')}.`)
