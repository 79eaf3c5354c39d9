import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { type Parameter, percentEncoded, type SignedRequest } from './signed-request.ts'

/** What a signing key is valid for. */
export interface Scope {
  /** `YYYYMMDD` */
  date: string
  region: string
  service: string
}

/** What every signature of a request is made with: that of its headers, and those of the chunks of its body. */
export interface Signer {
  key: Buffer
  scope: Scope
  /** When the request was signed, `YYYYMMDDTHHMMSSZ`. */
  time: string
}

export const sha256Hex = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** The key that signs requests of one day, region and service. */
export function signingKey(secretAccessKey: string, { date, region, service }: Scope): Buffer {
  return hmac(hmac(hmac(hmac(`AWS4${secretAccessKey}`, date), region), service), 'aws4_request')
}

/** A signature in hex; `algorithm` names what is signed: a request, a chunk of its body, or its trailers. */
export function signature({ key, scope, time }: Signer, algorithm: string, lines: readonly string[]): string {
  const { date, region, service } = scope
  return hmac(key, [algorithm, time, `${date}/${region}/${service}/aws4_request`, ...lines].join('\n')).toString('hex')
}

/** Compares two signatures in constant time. */
export function sameSignature(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The canonical forms of a request, of whose SHA-256 one is signed. `payload` is the hash of the body, or what stands for it. */
export function canonicalRequests(
  request: SignedRequest,
  signedHeaders: readonly string[],
  payload: string,
): readonly string[] {
  const { method, canonicalPaths, query } = request
  const headers = signedHeaders.map(name => `${name}:${request.header(name).map(collapsed).join(',')}\n`)
  const rest = [canonicalQuery(query), headers.join(''), signedHeaders.join(';'), payload]
  return canonicalPaths.map(path => [method, path, ...rest].join('\n'))
}

/** Spaces are those of HTTP: to a text, the second byte of an `à` would be one too. */
const collapsed = (value: string): string => value.replace(/[ \t]+/g, ' ').replace(/^ | $/g, '')

/** Sorted by encoded name, then by encoded value. The signature itself is not signed. */
function canonicalQuery(query: readonly Parameter[]): string {
  const encoded = query
    .filter(({ name }) => name !== 'X-Amz-Signature')
    .map(({ name, value }) => [percentEncoded(Buffer.from(name)), percentEncoded(Buffer.from(value))] as const)
  const inOrder = encoded.sort(([a, x], [b, y]) => (a === b ? compare(x, y) : compare(a, b)))
  return inOrder.map(([name, value]) => `${name}=${value}`).join('&')
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)
