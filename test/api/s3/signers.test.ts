import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto'
import { SignatureV4 } from '@smithy/signature-v4'
import test from 'ava'
import aws4 from 'aws4'
import fc from 'fast-check'
import { readAuthorization } from '../../../api/s3/signature/authorization.ts'
import { signedRequest } from '../../../api/s3/signature/signed-request.ts'
import { signingKey } from '../../../api/s3/signature/signing.ts'
import { checkTerms, verifySignature } from '../../../api/s3/signature/verification.ts'

// Two signers that others wrote, with requests that nobody would write down.

const pair = { accessKeyId: 'BRTH0123456789ABCDEF', secretAccessKey: 'x'.repeat(40) }
const host = 's3.example.test:4002'
const signedAt = new Date(Date.UTC(2026, 10, 24, 12))

interface Plain {
  method: string
  segments: string[]
  query: Record<string, string>
  headers: Record<string, string>
}

/** Texts without lone surrogates, which no client can send. */
const text = (options: { minLength?: number; maxLength: number }) =>
  fc.string({
    unit: fc.oneof(fc.string({ minLength: 1, maxLength: 1 }), fc.constantFrom(...'é🐎ﬀ+%/?&=~*\'()! :;,"')),
    ...options,
  })
const requests: fc.Arbitrary<Plain> = fc.record({
  method: fc.constantFrom('GET', 'PUT', 'HEAD', 'DELETE', 'POST'),
  segments: fc.array(text({ maxLength: 8 }), { minLength: 1, maxLength: 4 }),
  query: fc.dictionary(text({ minLength: 1, maxLength: 6 }), text({ maxLength: 6 }), { maxKeys: 4 }),
  headers: fc.dictionary(
    fc.constantFrom('x-amz-meta-a', 'x-amz-meta-b', 'content-type', 'x-amz-acl'),
    fc.stringMatching(/^[!-~][ -~]{0,12}$/),
  ),
})

const encoded = (value: string): string =>
  encodeURIComponent(value).replace(/[!'()*]/g, one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
const pathOf = ({ segments }: Plain): string => `/private/${segments.map(encoded).join('/')}`
const queryOf = (query: Record<string, string | string[] | null>): string =>
  Object.entries(query)
    .map(([name, value]) => `${encoded(name)}=${encoded(String(value))}`)
    .join('&')

function verify(method: string, target: string, headers: Record<string, unknown>): void {
  const rawHeaders = Object.entries(headers).flatMap(([name, value]) => [name, String(value)])
  const request = signedRequest({ method, target, rawHeaders })
  const authorization = readAuthorization(request)!
  checkTerms(request, authorization, signedAt.getTime())
  verifySignature(request, authorization, signingKey(pair.secretAccessKey, authorization.scope))
}

class Sha256 {
  readonly #hash: Hash | Hmac
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret as Buffer)
  }
  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(data as Buffer)
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }
  reset(): void {}
}

const smithy = new SignatureV4({
  credentials: pair,
  region: 'auto',
  service: 's3',
  sha256: Sha256 as never,
  uriEscapePath: false,
})
const messageOf = ({ headers, query, ...plain }: Plain) => ({
  method: plain.method,
  protocol: 'https:',
  hostname: 's3.example.test',
  path: pathOf(plain as Plain),
  query,
  headers: { host, ...headers },
})

test('signatures of the SDK for JavaScript are verified', async t => {
  const property = fc.asyncProperty(requests, async plain => {
    const { method, path, query, headers } = await smithy.sign(messageOf(plain), { signingDate: signedAt })
    verify(method, `${path}?${queryOf(query as never)}`, headers)
  })
  await t.notThrowsAsync(fc.assert(property, { numRuns: 500 }))
})

test('presigned URLs of the SDK for JavaScript are verified', async t => {
  const property = fc.asyncProperty(requests, async plain => {
    const message = messageOf({ ...plain, headers: { 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' } })
    const { method, path, query, headers } = await smithy.presign(message, { signingDate: signedAt, expiresIn: 60 })
    verify(method, `${path}?${queryOf(query as never)}`, { host: headers.host })
  })
  await t.notThrowsAsync(fc.assert(property, { numRuns: 500 }))
})

test('signatures of aws4 are verified', t => {
  const property = fc.property(requests, plain => {
    const target = `${pathOf(plain)}?${queryOf(plain.query)}`
    const { headers = {} } = aws4.sign(
      {
        method: plain.method,
        path: target,
        service: 's3',
        region: 'auto',
        headers: { Host: host, 'X-Amz-Date': '20261124T120000Z', ...plain.headers },
      },
      pair,
    )
    verify(plain.method, target, headers)
  })
  t.notThrows(() => fc.assert(property, { numRuns: 500 }))
})
