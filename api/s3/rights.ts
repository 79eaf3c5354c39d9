import { ownCounters } from '../../policy/counters.ts'
import { s3Access } from '../../policy/objects/s3-credentials.ts'
import { S3Error } from '../../policy/s3/s3-errors.ts'
import { s3Counts, s3Limits, s3Requests } from '../../policy/s3/s3-limits.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'
import type { Operation } from './operation.ts'
import type { SignedRequest } from './signature/signed-request.ts'

/** Throws AccessDenied for a key without the scope, or one that is limited to certain applications. */
export function checkRights({ scopes, resources }: Caller, needs: Operation['needs']): void {
  if (resources !== null)
    throw new S3Error('AccessDenied', 'A key that is limited to certain applications cannot access objects.')
  if (!s3Access(scopes)[needs]) throw new S3Error('AccessDenied', `The API key lacks the scope blob:${needs}.`)
}

/** A client may state whose bucket it expects, so that it never writes into another one's. */
export function checkOwner(request: Pick<SignedRequest, 'header'>, { user }: Caller): void {
  for (const name of ['x-amz-expected-bucket-owner', 'x-amz-source-expected-bucket-owner'])
    for (const owner of request.header(name))
      if (owner !== user.id) throw new S3Error('AccessDenied', 'The bucket belongs to another account than expected.')
}

/** Counts a request against its plan, or what it costs in addition. Throws SlowDown, and AccessDenied for a plan without S3. */
export async function countS3(
  { user, plan }: Caller,
  { limiter, config }: Services,
  cost?: { of: keyof typeof s3Counts; times: number },
): Promise<void> {
  if (plan.s3RequestsPer10s === 0)
    throw new S3Error('AccessDenied', 'The plan of this account has no S3 gateway. The Blob API can read and delete.')
  const rows = cost ? s3Counts[cost.of] : s3Requests(plan.s3RequestsPer10s)
  const name = cost ? `s3.${cost.of}` : 's3'
  await limiter.admit(ownCounters(name, rows, { user, scale: config.rateLimitScale }), cost?.times)
}

/** A document counts as one more request for each 64 KiB, as parsing it occupies the process. Throws SlowDown. */
export async function countDocument(
  bytes: number,
  { user, plan }: Caller,
  { limiter, config }: Services,
): Promise<void> {
  const requests = Math.floor(bytes / s3Limits.documentUnitBytes)
  if (requests === 0) return
  const rows = s3Requests(plan.s3RequestsPer10s)
  await limiter.admit(ownCounters('s3', rows, { user, scale: config.rateLimitScale }), requests)
}

/** After this time, in milliseconds, the credential of a body is checked again: a revoked one is refused within a second. */
const checkedAgainAfterMs = 1000

/** To be called once a body has arrived. Throws InvalidAccessKeyId and AccessDenied when the credential or its right has ended by then. */
export async function stillMayWrite(
  exchange: Exchange,
  accessKeyId: string,
  { findS3Credential }: Services,
): Promise<void> {
  if (performance.now() - exchange.startedAt <= checkedAgainAfterMs) return
  const { caller } = await findS3Credential(accessKeyId, exchange.address)
  checkRights(caller, 'write')
}
