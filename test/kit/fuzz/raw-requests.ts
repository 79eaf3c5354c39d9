import { createHmac, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { signedRequest } from '../../../api/s3/signature/signed-request.ts'
import { canonicalRequests, sha256Hex, signature, signingKey } from '../../../api/s3/signature/signing.ts'
import { childText, readXml } from '../../../api/s3/xml-in.ts'
import { s3Errors } from '../../../policy/s3/s3-errors.ts'

/** A request byte for byte, as no client library would send it. Header values are Latin-1. */
export interface RawRequest {
  method: string
  target: string
  headers: [name: string, value: string][]
  body: Buffer
}

export interface RawAnswer {
  status: number
  /** Names in lower case. */
  headers: Map<string, string>
  body: Buffer
}

export interface Pair {
  accessKeyId: string
  secretAccessKey: string
}

/** Every request must be answered within this, whatever it is. */
const deadlineMs = 10_000

/**
 * Sends a request on a connection of its own; undefined when the server closes it without an answer. Rejects after 10 s. `nearly` runs
 * when all but the last byte has been sent, with a promise of the first bytes of an answer.
 */
export async function sendRaw(
  url: string,
  { method, target, headers, body }: RawRequest,
  nearly?: (answered: Promise<unknown>) => Promise<unknown>,
): Promise<RawAnswer | undefined> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  const pieces: Buffer[] = []
  // An error is seen by what has arrived until then: the server may answer and close while the body is being sent.
  socket.on('data', piece => pieces.push(piece)).on('error', () => {})
  const answered = new Promise(resolve => socket.once('data', resolve))
  const closed = new Promise(resolve => socket.once('close', resolve))
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    socket.destroy()
  }, deadlineMs)
  const lines = [`${method} ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`), '', '']
  socket.write(Buffer.from(lines.join('\r\n'), 'latin1'))
  const first = nearly ? body.length - 1 : body.length
  socket.write(body.subarray(0, first))
  await nearly?.(answered)
  if (socket.writable) socket.write(body.subarray(first))
  // The server gives up a request whose client closes its side, complete or not.
  if (isShort(headers, body)) socket.end()
  socket.once('end', () => socket.end())
  if (socket.readableEnded) socket.end()
  await closed
  clearTimeout(timer)
  if (isLate) throw new Error(`no answer to ${method} ${target}`)
  return parsed(Buffer.concat(pieces))
}

/** Whether the headers announce more of a body than there is. */
function isShort(headers: RawRequest['headers'], body: Buffer): boolean {
  const values = (name: string) => headers.filter(([own]) => own.toLowerCase() === name).map(([, value]) => value)
  return (
    values('transfer-encoding').length > 0 || values('content-length').some(length => !(Number(length) <= body.length))
  )
}

/** The last answer on a connection; those before it are 100 Continue. */
function parsed(bytes: Buffer): RawAnswer | undefined {
  if (bytes.length === 0) return undefined
  const end = bytes.indexOf('\r\n\r\n')
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
  if (end === -1 || !status) throw new Error(`This is no answer: ${first}`)
  if (status === 100) return parsed(bytes.subarray(end + 4))
  const headers = new Map(
    lines.map(line => {
      const at = line.indexOf(':')
      return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
    }),
  )
  return { status, headers, body: bytes.subarray(end + 4) }
}

/** How a request is signed; `open` leaves its time out of the signature. */
export type Signing = 'header' | 'query' | 'wrong' | 'open' | 'none'

const hostOf = (url: string): string => new URL(url).host
const amzNow = (): string => new Date().toISOString().replace(/[-:]|\.\d{3}/g, '')

/** Signs whatever a request is, by the gateway's own reading of it: what is tested is what happens after that. */
export function signed(request: RawRequest, how: Signing, pair: Pair, url: string, payload?: string): RawRequest {
  const time = amzNow()
  const scope = { date: time.slice(0, 8), region: 'auto', service: 's3' }
  const credential = `${pair.accessKeyId}/${scope.date}/auto/s3/aws4_request`
  const framing: RawRequest['headers'] = [
    ['Host', hostOf(url)],
    ['Connection', 'close'],
  ]
  const isSized = request.headers.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name))
  if (!isSized) framing.push(['Content-Length', String(request.body.length)])
  const headers = [...framing, ...request.headers]
  if (how === 'none') return { ...request, headers }
  const stated = payload ?? sha256Hex(request.body)
  const isQuery = how === 'query'
  if (!isQuery) headers.push(['x-amz-date', time], ['x-amz-content-sha256', stated])
  const names = [...new Set(headers.map(([name]) => name.toLowerCase()))].filter(name => name !== 'connection').sort()
  const covered = how === 'open' ? names.filter(name => name !== 'x-amz-date') : names
  const target = isQuery ? presigned(request.target, { credential, time, covered }) : request.target
  const own = signatureOf(
    { ...request, target, headers },
    { time, scope, covered, pair, payload: isQuery ? unsigned : stated },
  )
  const shown = how === 'wrong' ? own.replace(/^./, one => (one === '0' ? '1' : '0')) : own
  if (isQuery) return { ...request, headers, target: `${target}&X-Amz-Signature=${shown}` }
  const value = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${covered.join(';')}, Signature=${shown}`
  return { ...request, headers: [...headers, ['Authorization', value]] }
}

const unsigned = 'UNSIGNED-PAYLOAD'

function presigned(
  target: string,
  { credential, time, covered }: { credential: string; time: string; covered: string[] },
) {
  const terms = new URLSearchParams({
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': credential,
    'X-Amz-Date': time,
    'X-Amz-Expires': '60',
    'X-Amz-SignedHeaders': covered.join(';'),
  })
  return `${target}${target.includes('?') ? '&' : '?'}${terms}`
}

interface Terms {
  time: string
  scope: { date: string; region: string; service: string }
  covered: string[]
  pair: Pair
  payload: string
}

/** Zeros for a request that cannot be read. */
function signatureOf({ method, target, headers }: RawRequest, { time, scope, covered, pair, payload }: Terms): string {
  try {
    const rawHeaders = headers.flatMap(([name, value]) => [name, value.trim()])
    const [canonical] = canonicalRequests(signedRequest({ method, target, rawHeaders }), covered, payload)
    const signer = { key: signingKey(pair.secretAccessKey, scope), scope, time }
    return signature(signer, 'AWS4-HMAC-SHA256', [sha256Hex(canonical!)])
  } catch {
    return '0'.repeat(64)
  }
}

/** The signature that a request carries in its header, with which the chain of its chunks begins. */
const seedOf = ({ headers }: RawRequest): string =>
  /Signature=(\w+)/.exec(headers.find(([name]) => name === 'Authorization')?.[1] ?? '')?.[1] ?? ''

/** A body in signed chunks; `request` is signed already. */
export function signedChunks(pieces: readonly Buffer[], request: RawRequest, { secretAccessKey }: Pair): Buffer {
  const time = request.headers.find(([name]) => name === 'x-amz-date')![1]
  const scope = { date: time.slice(0, 8), region: 'auto', service: 's3' }
  const signer = { key: signingKey(secretAccessKey, scope), scope, time }
  let previous = seedOf(request)
  const frames = [...pieces, Buffer.alloc(0)].flatMap(piece => {
    previous = signature(signer, 'AWS4-HMAC-SHA256-PAYLOAD', [previous, sha256Hex(''), sha256Hex(piece)])
    const head = Buffer.from(`${piece.length.toString(16)};chunk-signature=${previous}\r\n`)
    return piece.length > 0 ? [head, piece, Buffer.from('\r\n')] : [head, Buffer.from('\r\n')]
  })
  return Buffer.concat(frames)
}

const boundary = 'b'.repeat(16)

/** A form whose policy allows its fields, as they are, in the buckets of the account. */
export function signedForm(
  fields: [name: string, value: string][],
  file: Buffer,
  { bucket, pair, url }: { bucket: string; pair: Pair; url: string },
): RawRequest {
  const time = amzNow()
  const scope = { date: time.slice(0, 8), region: 'auto', service: 's3' }
  const own: [string, string][] = [
    ...fields,
    ['x-amz-algorithm', 'AWS4-HMAC-SHA256'],
    ['x-amz-credential', `${pair.accessKeyId}/${scope.date}/auto/s3/aws4_request`],
    ['x-amz-date', time],
  ]
  const conditions = ['bucket', ...own.map(([name]) => name)].map(name => ['starts-with', `$${name}`, ''])
  const expiration = new Date(Date.now() + 60_000).toISOString()
  const policy = Buffer.from(JSON.stringify({ expiration, conditions })).toString('base64')
  const key = signingKey(pair.secretAccessKey, scope)
  own.push(['policy', policy], ['x-amz-signature', createHmac('sha256', key).update(policy).digest('hex')])
  const parts = own.map(([name, value]) => part(`name="${name}"`, Buffer.from(value)))
  const body = Buffer.concat([
    ...parts,
    part('name="file"; filename="ü b.txt"', file),
    Buffer.from(`--${boundary}--\r\n`),
  ])
  const headers: RawRequest['headers'] = [
    ['Host', hostOf(url)],
    ['Connection', 'close'],
    ['Content-Type', `multipart/form-data; boundary=${boundary}`],
    ['Content-Length', String(body.length)],
  ]
  return { method: 'POST', target: `/${bucket}`, headers, body }
}

const part = (disposition: string, content: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`),
    content,
    Buffer.from('\r\n'),
  ])

/** What is wrong with an answer: it must be a success, or a document with a code of the list and its status. Undefined = nothing. */
export function wrongAnswer({ method }: RawRequest, answer: RawAnswer): string | undefined {
  const { status, headers, body } = answer
  if (status === 500 || status === 503) return `${status} ${body}`
  if (status < 400 || method === 'HEAD' || method === 'OPTIONS') return undefined
  if (headers.get('content-type') !== 'application/xml') return `${status} has the type ${headers.get('content-type')}`
  try {
    const error = readXml(body)
    const code = childText(error, 'Code') ?? ''
    const isListed = error.name === 'Error' && s3Errors[code as keyof typeof s3Errors]?.[0] === status
    return isListed ? undefined : `${status} ${body}`
  } catch {
    return `not well-formed: ${body}`
  }
}

export const newKey = (): string => `k${randomBytes(8).toString('hex')}`
