import { createHmac } from 'node:crypto'
import { signingKey } from '../../../api/s3/signature/signing.ts'
import type { TestApi } from '../actors/api.ts'
import type { S3Account } from './account.ts'

type Condition = Record<string, string> | (string | number)[]

export interface FormOptions {
  /** Fields in addition to those of the signature; undefined = without this one. */
  fields?: Record<string, string | undefined>
  conditions?: Condition[]
  expiration?: Date
  secretAccessKey?: string
}

/** The fields of a signed form, each of which its policy allows unless `conditions` says otherwise. */
export function signedFields(
  { credentials: { accessKeyId, secretAccessKey: own } }: S3Account,
  { fields = {}, conditions, expiration = new Date(Date.now() + 60_000), secretAccessKey = own }: FormOptions = {},
): Record<string, string> {
  const time = new Date().toISOString().replace(/[-:]|\.\d{3}/g, '')
  const scope = { date: time.slice(0, 8), region: 'auto', service: 's3' }
  const all: Record<string, string | undefined> = {
    key: 'form.txt',
    'x-amz-algorithm': 'AWS4-HMAC-SHA256',
    'x-amz-credential': `${accessKeyId}/${scope.date}/auto/s3/aws4_request`,
    'x-amz-date': time,
    ...fields,
  }
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >
  const signature = Object.entries(given).filter(([name]) => /^x-amz-(algorithm|credential|date)$/.test(name))
  const allowed = conditions ?? Object.keys(given).map(name => ['starts-with', `$${name}`, ''])
  const document = {
    expiration,
    conditions: [{ bucket: 'private' }, ...signature.map(pair => Object.fromEntries([pair])), ...allowed],
  }
  const policy = Buffer.from(JSON.stringify(document)).toString('base64')
  const hmac = createHmac('sha256', signingKey(secretAccessKey, scope))
  return { ...given, policy, 'x-amz-signature': hmac.update(policy).digest('hex') }
}

export const boundary = 'form-boundary'

/** One part of a form; with a name of a file it is one. */
export const formPart = (name: string, content: string | Buffer, fileName?: string): Buffer =>
  Buffer.concat([
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${fileName === undefined ? '' : `; filename="${fileName}"\r\nContent-Type: text/plain`}\r\n\r\n`,
    ),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ])

export const formEnd = Buffer.from(`--${boundary}--\r\n`)

/** The body of a form with a file after the fields. */
export const formBody = (
  fields: Record<string, string>,
  file: string | Buffer = 'content',
  fileName = 'own name.txt',
): Buffer =>
  Buffer.concat([
    ...Object.entries(fields).map(([name, value]) => formPart(name, value)),
    formPart('file', file, fileName),
    formEnd,
  ])

/** Sends a form as it is, and reads the code of its refusal. */
export async function postForm({ s3Url }: TestApi, body: Buffer, bucket = 'private') {
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
  const answer = await fetch(`${s3Url}/${bucket}`, {
    method: 'POST',
    headers,
    body: new Uint8Array(body),
    redirect: 'manual',
  })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, text, code: /<Code>([^<]*)</.exec(text)?.[1] }
}
