import { createHash } from 'node:crypto'
import { checksum } from '../../../lib/checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { inviteBody, readBody } from '../../http/body.ts'
import type { S3Call } from '../operation.ts'
import { ChunkedBody } from '../signature/chunked-body.ts'
import { readXml, type XmlElement } from '../xml-in.ts'
import { type Payload, payloadOf } from './payload.ts'

/**
 * Reads the XML document of a request, whose root must have this name. Throws MalformedXML, EntityTooLarge over 2 MiB, and as
 * `receivePayload` does for a body that is not what it was stated to be.
 */
export async function receiveDocument(call: S3Call, root: string): Promise<XmlElement> {
  const document = readXml(await receiveBytes(call))
  if (document.name !== root) throw new S3Error('MalformedXML')
  return document
}

/** The bytes of a body that is small enough for memory. */
async function receiveBytes({ exchange, request, authorization, signer }: S3Call): Promise<Buffer> {
  const payload = payloadOf(request, authorization, signer)
  if (payload.length > s3Limits.xmlBytes) throw new S3Error('MalformedXML', 'The document exceeds 2 MiB.')
  inviteBody(exchange.request, exchange.response)
  const framed = await readBody(exchange.request, 2 * s3Limits.xmlBytes)
  const chunked = payload.chunks && new ChunkedBody(payload.chunks)
  const bytes = chunked ? Buffer.concat(chunked.push(framed)) : framed
  verify(bytes, payload, chunked?.end())
  return bytes
}

function verify(bytes: Buffer, payload: Payload, trailers?: ReadonlyMap<string, string>): void {
  if (bytes.length !== payload.length) throw new S3Error('IncompleteBody')
  const hex = (algorithm: 'md5' | 'sha256') => createHash(algorithm).update(bytes).digest('hex')
  if (payload.md5 !== null && payload.md5 !== hex('md5')) throw new S3Error('BadDigest')
  if (payload.sha256 !== null && payload.sha256 !== hex('sha256')) throw new S3Error('XAmzContentSHA256Mismatch')
  if (!payload.checksum) return
  const { algorithm, value } = payload.checksum
  const sum = checksum(algorithm)
  sum.update(bytes)
  const expected = value ?? trailers?.get(`x-amz-checksum-${algorithm.toLowerCase()}`)
  if (sum.digest().toString('base64') !== expected) throw new S3Error('BadDigest')
}
