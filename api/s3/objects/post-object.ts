import { writeConditions } from '../../../policy/s3/s3-conditions.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { refuseUnsupported, writtenHeaders } from '../../../policy/s3/s3-headers.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { writeTerms } from '../../../policy/s3/s3-write-terms.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Reply } from '../../http/respond.ts'
import { withinDeadline } from '../../pipeline/deadline.ts'
import type { Services } from '../../services.ts'
import { type Address, assertKey } from '../addressing.ts'
import { emptyReply, xmlReply } from '../answers.ts'
import { type FormFields, receiveForm } from '../bodies/form.ts'
import { checksumOf, md5Of } from '../bodies/payload.ts'
import { discardingOnFailure } from '../bodies/receive.ts'
import { namedBucket } from '../buckets/named-bucket.ts'
import { objectOf, type S3Call } from '../operation.ts'
import { checkOwner, checkRights, countS3, stillMayWrite } from '../rights.ts'
import { parsedCredential } from '../signature/authorization.ts'
import { checkPolicy, type PostSizes, verifyPolicy } from '../signature/post-policy.ts'
import type { SignedRequest } from '../signature/signed-request.ts'
import { checkScope } from '../signature/verification.ts'
import { quotedEtag } from './object-views.ts'
import { inUploadSlot } from './upload-slots.ts'
import { assertMayWrite, assertRoom, bodyRules, writeObject } from './write-object.ts'

/** Whether a request is a form that a browser sends to a bucket. */
export const isForm = ({ method, header, query }: SignedRequest, { bucket, key }: Address): boolean =>
  method === 'POST' &&
  bucket !== null &&
  key === null &&
  query.length === 0 &&
  header('authorization').length === 0 &&
  /^multipart\/form-data\b/i.test(header('content-type')[0] ?? '')

/** A form whose policy is signed, and allows its fields. */
interface AdmittedForm {
  call: Pick<S3Call, 'caller' | 'exchange' | 'stored' | 'key' | 'bucket'>
  accessKeyId: string
  sizes: PostSizes
}

/** A form upload: its fields come first and decide about the file, which is not read before they are verified. */
export async function postObject(
  request: SignedRequest,
  { bucket }: Address,
  exchange: Exchange,
  services: Services,
): Promise<Reply> {
  exchange.command = 's3.PostObject'
  const form = await receiveForm(exchange)
  const fields = withFileName(form.fields, form.fileName)
  try {
    const admitted = await withinDeadline(admit(fields, bucket!, { request, exchange, services }))
    const { call, sizes, accessKeyId } = admitted
    const header = (name: string) => {
      const value = fields.get(name) ?? (name === 'x-amz-acl' ? fields.get('acl') : undefined)
      return value === undefined ? [] : [Buffer.from(value).toString('latin1')]
    }
    assertHeaders(fields)
    const headers = writtenHeaders(header, fields.keys(), call.key)
    refuseUnsupported(header, formHeaders(fields), call.stored === 'public')
    const conditions = writeConditions(header)
    const stated = checksumOf(header, fields.keys())
    const md5 = md5Of(fields.get('content-md5'))
    const expected = Number(request.header('content-length')[0] ?? 0)
    return await inUploadSlot(call, services, async (held, rules) => {
      const name = objectOf(call)
      const terms = writeTerms(name, headers, call.caller, rules)
      await assertRoom(Math.max(0, expected - s3Limits.formBytes), name, call.caller, services)
      const bounds = bodyRules(name, { ...terms, maxBytes: Math.min(terms.maxBytes, sizes.max) })
      const received = await form.receiveFile(services, { ...bounds, smallBesideRow: true }, { checksum: stated, md5 })
      return discardingOnFailure(services, received.arrived, async () => {
        if (received.arrived.size < sizes.min)
          throw new S3Error('EntityTooSmall', 'The file is smaller than its policy allows.')
        await stillMayWrite(exchange, accessKeyId, services)
        const write = { call, operation: 'PostObject', received, headers, terms, conditions, held }
        const { object } = await writeObject(write, services)
        return answer(fields, { bucket: call.bucket, key: call.key, etag: object.etag }, services)
      })
    })
  } finally {
    form.end()
  }
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: so it is in forms
const fileNameVariable = '${filename}'

/** `${filename}` in a field is the name of the file, as the browser sent it. */
function withFileName(fields: FormFields, fileName: string): FormFields {
  const base = fileName.split(/[/\\]/).at(-1) ?? ''
  return new Map(
    [...fields].map(([name, value]) => [
      name,
      name === 'policy' ? value : value.replaceAll(fileNameVariable, () => base),
    ]),
  )
}

const formHeaders = (fields: FormFields): string[] =>
  [...fields.keys()].filter(name => name.startsWith('x-amz-') && !signatureFields.has(name))

const signatureFields = new Set([
  'x-amz-algorithm',
  'x-amz-credential',
  'x-amz-date',
  'x-amz-signature',
  'x-amz-security-token',
])

const sentAsHeader = /^(content-(type|encoding|language|disposition)|cache-control|expires|x-amz-meta-.*)$/s

/** Throws InvalidArgument for a field that could not be a header of the object, and NotImplemented for the field tagging. */
function assertHeaders(fields: FormFields): void {
  for (const [name, value] of fields)
    if (
      sentAsHeader.test(name) &&
      (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) || /[^\t\x20-\x7e\x80-\uffff]/.test(value))
    )
      throw new S3Error('InvalidArgument', `The field ${name} cannot be a header of the object.`)
  if (fields.has('tagging')) throw new S3Error('NotImplemented', 'The field tagging is not supported.')
}

async function admit(
  fields: FormFields,
  bucket: string,
  { request, exchange, services }: { request: SignedRequest; exchange: Exchange; services: Services },
): Promise<AdmittedForm> {
  const key = fields.get('key') ?? ''
  if (key === '') throw new S3Error('InvalidArgument', 'The form must have a field named key, before the file.')
  assertKey(key)
  if (!fields.has('policy')) throw new S3Error('AccessDenied', 'Forms must be signed: the field policy is missing.')
  if (fields.get('x-amz-algorithm') !== 'AWS4-HMAC-SHA256')
    throw new S3Error('InvalidArgument', 'The field x-amz-algorithm must be AWS4-HMAC-SHA256.')
  const { accessKeyId, scope } = parsedCredential(
    fields.get('x-amz-credential') ?? '',
    message => new S3Error('InvalidArgument', message),
  )
  checkScope(scope, 'InvalidArgument')
  const { caller, signingKey } = await services.findS3Credential(accessKeyId, exchange.address)
  verifyPolicy(fields, { key: signingKey(scope) })
  const sizes = checkPolicy(new Map([...fields, ['bucket', bucket]]), Date.now())
  await countS3(caller, services)
  checkRights(caller, 'write')
  checkOwner(request, caller)
  const stored = await namedBucket(bucket, caller.user.id, services)
  const call = { caller, exchange, stored, key, bucket }
  assertMayWrite(call)
  return { call, sizes, accessKeyId }
}

interface Posted {
  bucket: string
  key: string
  etag: string
}

/** 204, or what the form requests: another status, or a page to which the browser goes with bucket, key and ETag in the query. */
function answer(fields: FormFields, { bucket, key, etag }: Posted, { config }: Services): Reply {
  const path = key.split('/').map(encodeURIComponent).join('/')
  const location = `${config.urls.s3}/${bucket}/${path}`
  const redirect = fields.get('success_action_redirect') ?? fields.get('redirect')
  const headers = { ETag: quotedEtag(etag), Location: location }
  if (redirect !== undefined && /^https?:$/.test(URL.canParse(redirect) ? new URL(redirect).protocol : '')) {
    const target = new URL(redirect)
    for (const [name, value] of Object.entries({ bucket, key, etag: quotedEtag(etag) }))
      target.searchParams.set(name, value)
    return { status: 303, headers: { ...headers, Location: target.href } }
  }
  const status = fields.get('success_action_status')
  if (status === '201')
    return {
      ...xmlReply('PostResponse', { Location: location, Bucket: bucket, Key: key, ETag: quotedEtag(etag) }, headers),
      status: 201,
    }
  return emptyReply(status === '200' ? 200 : 204, headers)
}
