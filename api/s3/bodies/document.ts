import { createHash } from 'node:crypto'
import { checksum } from '../../../lib/checksums.ts'
import { bodyBudgets } from '../../../policy/body-budgets.ts'
import { checksumHeader } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { inviteBody, readBody } from '../../http/body.ts'
import { BodyBudget } from '../../http/body-budget.ts'
import type { Services } from '../../services.ts'
import type { S3Call } from '../operation.ts'
import { countDocument, stillMayWrite } from '../rights.ts'
import { ChunkedBody } from '../signature/chunked-body.ts'
import { readXml, type XmlElement } from '../xml-in.ts'
import { type Payload, payloadOf } from './payload.ts'

/** Bounds the memory of all large documents, from their arrival until their request has been handled. */
const largeDocuments = new BodyBudget(bodyBudgets.documents)

/**
 * Reads the XML document of a request that writes, whose root must have this name. Throws MalformedXML, also over 2 MiB, SlowDown while too many
 * large ones are read, and as `receivePayload` does for a body that is not what it was stated to be.
 */
export async function receiveDocument(call: S3Call, root: string, services: Services): Promise<XmlElement> {
  const bytes = await receiveBytes(call)
  await stillMayWrite(call.exchange, call.authorization.accessKeyId, services)
  await countDocument(bytes.length, call.caller, services)
  const document = readXml(bytes)
  if (document.name !== root) throw new S3Error('MalformedXML')
  return document
}

/** The bytes of a body that is small enough for memory. */
async function receiveBytes({ exchange, request, authorization, signer, caller }: S3Call): Promise<Buffer> {
  const payload = payloadOf(request, authorization, signer)
  if (payload.length > s3Limits.xmlBytes) throw new S3Error('MalformedXML', 'The document exceeds 2 MiB.')
  const charge = largeDocuments.charge([caller.user.id])
  exchange.onEnd(() => charge.end())
  inviteBody(exchange.request, exchange.response)
  const framed = await readBody(exchange.request, 2 * s3Limits.xmlBytes, { charge })
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
  const expected = value ?? trailers?.get(checksumHeader(algorithm))
  if (sum.digest().toString('base64') !== expected) throw new S3Error('BadDigest')
}
