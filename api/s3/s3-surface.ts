import { CodedError } from '../../policy/errors.ts'
import { S3Error } from '../../policy/s3/s3-errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import { audit } from '../pipeline/audit.ts'
import { withinDeadline } from '../pipeline/deadline.ts'
import type { Services } from '../services.ts'
import { type Address, addressOf } from './addressing.ts'
import { failedS3, identified } from './answers.ts'
import { namedBucket } from './buckets/named-bucket.ts'
import { corsHeaders, preflight } from './cors.ts'
import { operationOf } from './dispatch.ts'
import { isForm, postObject } from './objects/post-object.ts'
import type { Operation, S3Call } from './operation.ts'
import { operations } from './operations.ts'
import { checkOwner, checkRights, countS3 } from './rights.ts'
import { readAuthorization } from './signature/authorization.ts'
import { type SignedRequest, signedRequest, withParametersAsHeaders } from './signature/signed-request.ts'
import { checkTerms, verifySignature } from './signature/verification.ts'

/** What happens to every request of the S3 wire: address, signature, rights, limits, operation, audit. Never rejects. `hosts` as in `addressOf`. */
export async function answerS3(exchange: Exchange, hosts: readonly string[], services: Services): Promise<Reply> {
  const { method = '', url = '/', rawHeaders } = exchange.request
  const headers = identified(exchange)
  let reply: Reply
  try {
    // Set on the response, as some operations write their answer themselves.
    for (const [name, value] of Object.entries(headers)) exchange.response.setHeader(name, value)
    const request = signedRequest({ method, target: url, rawHeaders })
    const address = addressOf(request, hosts)
    const allowed = corsHeaders(exchange, address.bucket, services)
    for (const [name, value] of Object.entries(allowed ?? {})) exchange.response.setHeader(name, value)
    reply = method === 'OPTIONS' ? preflight(exchange, allowed) : await served(request, address, exchange, services)
  } catch (thrown) {
    reply = failedS3(thrown, exchange, url.split('?')[0]!, services)
  } finally {
    exchange.release()
  }
  return reply
}

async function served(
  request: SignedRequest,
  address: Address,
  exchange: Exchange,
  services: Services,
): Promise<Reply> {
  if (services.isBlocked(exchange.address)) throw new CodedError('COUNTRY_BLOCKED')
  // A form has its signature in its fields, so it is admitted once they have arrived.
  if (isForm(request, address)) return postObject(request, address, exchange, services)
  const { call, operation } = await withinDeadline(admitted(request, address, exchange, services))
  const reply = await operation.handle(call, services)
  if (operation.needs === 'write' && !operation.unrecorded) await record(operation.name, call, services)
  return reply
}

async function admitted(
  wire: SignedRequest,
  address: Address,
  exchange: Exchange,
  services: Services,
): Promise<{ call: S3Call; operation: Operation }> {
  const authorization = readAuthorization(wire)
  if (!authorization) throw new S3Error('AccessDenied', 'Requests must be signed.')
  checkTerms(wire, authorization, Date.now())
  const { caller, signingKey } = await services.findS3Credential(authorization.accessKeyId, exchange.address)
  const signer = verifySignature(wire, authorization, signingKey(authorization.scope))
  const request = authorization.expiresSeconds === null ? wire : withParametersAsHeaders(wire)
  await countS3(caller, services)
  const operation = operationOf(operations, request, address)
  if (operation.needs === 'write') exchange.command = `s3.${operation.name}`
  checkRights(caller, operation.needs)
  checkOwner(request, caller)
  const named = { bucket: address.bucket ?? '', key: address.key ?? '' }
  const isNew = operation.name === 'CreateBucket' || named.bucket === ''
  const stored = isNew ? 'private' : await namedBucket(named.bucket, caller.user.id, services)
  const call = { exchange, request, caller, authorization, signer, stored, ...named }
  return { call, operation }
}

/** Records a command that succeeded, unless its own commit has. */
const record = (name: string, { caller, exchange }: Pick<S3Call, 'caller' | 'exchange'>, services: Services) =>
  audit({ name: `s3.${name}`, method: 'POST' }, { caller }, exchange, services, 'success')
