import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Signatures } from '../../../policy/s3/s3-signatures.ts'
import type { SignedRequest } from './signed-request.ts'
import type { Scope } from './signing.ts'

/** The signature that a request carries, and what it says about itself. Nothing of it is verified yet. */
export interface Authorization {
  accessKeyId: string
  scope: Scope
  /** When it was signed, `YYYYMMDDTHHMMSSZ`. */
  time: string
  /** In lower case. */
  signedHeaders: readonly string[]
  /** 64 hex digits. */
  signature: string
  /** Seconds for which an address is valid; null for a signature in a header. */
  expiresSeconds: number | null
  /** SHA-256 of the body in hex, or the name of how the body is signed. */
  payload: string
}

const algorithm = 'AWS4-HMAC-SHA256'
const timeForm = /^\d{8}T\d{6}Z$/
const signatureForm = /^[0-9a-f]{64}$/
const { maxExpiresSeconds } = s3Signatures

/** The signature of a request, from its header or its query; null when it has none. Rejects a malformed one with its code. */
export function readAuthorization(request: SignedRequest): Authorization | null {
  const headers = request.header('authorization')
  const isPresigned = request.query.some(({ name }) => name === 'X-Amz-Algorithm' || name === 'X-Amz-Signature')
  if (headers.length > 0 && isPresigned)
    throw new S3Error('InvalidArgument', 'A request must have one signature: in its header or in its query.')
  if (headers.length > 1) throw malformed('There is more than one Authorization header.')
  if (headers.length === 1) return ofHeader(request, headers[0]!)
  // Version 2, which some programs still use for presigned addresses.
  if (request.query.some(({ name }) => name === 'AWSAccessKeyId'))
    throw new S3Error('InvalidRequest', `Please use ${algorithm} (Signature Version 4).`)
  return isPresigned ? ofQuery(request) : null
}

function ofHeader(request: SignedRequest, header: string): Authorization {
  const [, scheme, rest] = /^(\S+)\s+(.*)$/s.exec(header.trim()) ?? []
  if (scheme !== algorithm)
    throw new S3Error('InvalidRequest', `Requests must be signed with ${algorithm} (Signature Version 4).`)
  const fields = new Map<string, string>()
  for (const field of rest!.split(',')) {
    const at = field.indexOf('=')
    const name = field.slice(0, at).trim()
    if (at === -1 || fields.has(name)) throw malformed(`It must have ${fieldNames}, each once.`)
    fields.set(name, field.slice(at + 1).trim())
  }
  const [credential, signedHeaders, signature] = [...'Credential SignedHeaders Signature'.split(' ')].map(name =>
    fields.get(name),
  )
  if (!credential || !signedHeaders || !signature || fields.size > 3) throw malformed(`It must have ${fieldNames}.`)
  if (!signatureForm.test(signature)) throw malformed('The signature must be 64 lower-case hex digits.')
  const payload = request.header('x-amz-content-sha256')
  if (payload.length !== 1) throw new S3Error('InvalidRequest', 'The header x-amz-content-sha256 is required, once.')
  return {
    ...parsedCredential(credential, malformed),
    time: timeOf(request),
    signedHeaders: names(signedHeaders),
    signature,
    expiresSeconds: null,
    payload: payload[0]!,
  }
}

const fieldNames = 'Credential, SignedHeaders and Signature'

/** `x-amz-date` goes before `Date`, which many clients cannot set. */
function timeOf(request: SignedRequest): string {
  const [own] = request.header('x-amz-date')
  if (own !== undefined && timeForm.test(own)) return own
  const date = own === undefined ? Date.parse(request.header('date')[0] ?? '') : Number.NaN
  if (Number.isNaN(date))
    throw new S3Error('AccessDenied', 'A signed request must have a valid x-amz-date or Date header.')
  return amzTime(date)
}

/** Milliseconds since 1970 as `YYYYMMDDTHHMMSSZ`. */
const amzTime = (milliseconds: number): string => new Date(milliseconds).toISOString().replace(/[-:]|\.\d{3}/g, '')

/** Milliseconds since 1970 of `YYYYMMDDTHHMMSSZ`; NaN when there is no such time. */
export const timeOfAmz = (time: string): number =>
  Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))

function ofQuery({ query, header }: SignedRequest): Authorization {
  const field = (name: string): string => {
    const values = query.filter(one => one.name === name)
    if (values.length !== 1 || values[0]!.value === '') throw wrongQuery(`${name} is required, once.`)
    return values[0]!.value
  }
  if (field('X-Amz-Algorithm') !== algorithm) throw wrongQuery(`X-Amz-Algorithm must be ${algorithm}.`)
  const [credential, time, expires, signedHeaders, signature] = [
    field('X-Amz-Credential'),
    field('X-Amz-Date'),
    field('X-Amz-Expires'),
    field('X-Amz-SignedHeaders'),
    field('X-Amz-Signature'),
  ]
  if (!timeForm.test(time)) throw wrongQuery('X-Amz-Date must have the form YYYYMMDDTHHMMSSZ.')
  if (!signatureForm.test(signature)) throw wrongQuery('X-Amz-Signature must be 64 lower-case hex digits.')
  const expiresSeconds = /^\d{1,7}$/.test(expires) ? Number(expires) : 0
  if (expiresSeconds < 1 || expiresSeconds > maxExpiresSeconds)
    throw wrongQuery(`X-Amz-Expires must be a whole number of seconds from 1 to ${maxExpiresSeconds}.`)
  return {
    ...parsedCredential(credential, wrongQuery),
    time,
    signedHeaders: names(signedHeaders),
    signature,
    expiresSeconds,
    payload:
      query.find(({ name }) => name === 'X-Amz-Content-Sha256')?.value ?? header('x-amz-content-sha256')[0] ?? unsigned,
  }
}

const unsigned = 'UNSIGNED-PAYLOAD'

/** `<access key id>/<date>/<region>/<service>/aws4_request`; an access key id of other systems may contain slashes. */
export function parsedCredential(
  credential: string,
  refused: (message: string) => S3Error,
): Pick<Authorization, 'accessKeyId' | 'scope'> {
  const [accessKeyId, date, region, service, end] = credential.split('/')
  if (credential.split('/').length !== 5 || end !== 'aws4_request' || !/^\d{8}$/.test(date!) || !accessKeyId)
    throw refused('Credential must have the form <access key id>/<YYYYMMDD>/<region>/s3/aws4_request.')
  return { accessKeyId, scope: { date: date!, region: region!, service: service! } }
}

const names = (list: string): readonly string[] => list.toLowerCase().split(';')

const malformed = (message: string): S3Error => new S3Error('AuthorizationHeaderMalformed', message)
const wrongQuery = (message: string): S3Error => new S3Error('AuthorizationQueryParametersError', message)
