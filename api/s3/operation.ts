import type { Bucket, ExtraBucket, ObjectName } from '../../policy/objects/object-names.ts'
import { assertWithin } from '../../policy/objects/prefix-limits.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Reply } from '../http/respond.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'
import type { Authorization } from './signature/authorization.ts'
import type { SignedRequest } from './signature/signed-request.ts'
import type { Signer } from './signature/signing.ts'

/** One operation of S3: how it is recognised, what right it needs, and the lines that execute it. */
export interface Operation {
  /** Its name in the API of S3, in docs/s3.md and, after `s3.`, in audit entries. */
  name: string
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  target: 'service' | 'bucket' | 'object'
  /** Parameters of the query that select it. */
  query?: readonly string[]
  /** A header that selects it. */
  header?: string
  /** `off`: answered as S3 does when the feature is off. */
  support: 'supported' | 'off'
  needs: 'read' | 'write'
  /** Not recorded: a part of something that is. */
  unrecorded?: true
  handle(call: S3Call, services: Services): Promise<Reply>
}

/** A request whose signature is verified. */
export interface S3Call {
  exchange: Exchange
  request: SignedRequest
  caller: Caller
  authorization: Authorization
  signer: Signer
  /** The bucket as it was named; empty for requests to the service. */
  bucket: string
  /** The bucket in which its objects are stored. */
  stored: Bucket | ExtraBucket
  /** Empty for requests to the service or a bucket. */
  key: string
}

/** A parameter of the query; undefined when it is absent. */
export const queryOf = ({ request }: Pick<S3Call, 'request'>, name: string): string | undefined =>
  request.query.find(parameter => parameter.name === name)?.value

/** A header; undefined when it is absent. */
export const headerOf = ({ request }: Pick<S3Call, 'request'>, name: string): string | undefined =>
  request.header(name)[0]

/** The name of the object that a call is about. Throws PREFIX_NOT_ALLOWED for a credential that is limited to other folders. */
export function objectOf({ caller, stored, key }: Pick<S3Call, 'caller' | 'stored' | 'key'>): ObjectName {
  assertWithin(caller.prefixes, key)
  return { ownerId: caller.user.id, bucket: stored, key }
}
