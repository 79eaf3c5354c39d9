import { S3Error } from '../../../policy/s3/s3-errors.ts'

/** A request as it came over the wire. Signatures are made over these bytes, so nothing in it is decoded, folded or merged. */
export interface WireRequest {
  method: string
  /** Path and query of the request line. */
  target: string
  /** Alternating names and values, as Node's `rawHeaders`. */
  rawHeaders: readonly string[]
}

/** A parameter of the query; duplicates are listed as often as they come. */
export interface Parameter {
  name: string
  value: string
}

/** The parts of a request that a signature covers. */
export interface SignedRequest {
  method: string
  /** The path decoded once, as UTF-8. */
  path: string
  query: readonly Parameter[]
  /**
   * The path decoded once and encoded again by RFC 3986. Signers disagree about a `%2F`: to some it is a slash, others leave it alone. Where
   * it makes a difference there are two.
   */
  canonicalPaths: readonly string[]
  /** Values of a header, in the order in which they came; `name` is in lower case. */
  header(name: string): readonly string[]
  /** Names of all headers, in lower case. */
  headerNames(): Iterable<string>
}

/** Parses a request. Rejects targets that are no UTF-8, or have an incomplete percent-encoding, with InvalidArgument. */
export function signedRequest({ method, target, rawHeaders }: WireRequest): SignedRequest {
  const [path, query] = splitTarget(target)
  const bytes = percentDecoded(path)
  const headers = new Map<string, string[]>()
  for (let n = 0; n + 1 < rawHeaders.length; n += 2) {
    const name = rawHeaders[n]!.toLowerCase()
    const values = headers.get(name)
    if (values) values.push(rawHeaders[n + 1]!)
    else headers.set(name, [rawHeaders[n + 1]!])
  }
  return {
    method,
    path: utf8(bytes),
    query: parameters(query),
    canonicalPaths: canonicalPathsOf(path, bytes),
    header: name => headers.get(name) ?? [],
    headerNames: () => headers.keys(),
  }
}

/** Checksums are left out: clients sign that of the empty body which they do not know yet. */
const asHeader = /^x-amz-(?!checksum-|sdk-checksum-)[!#$%&'*+.^_`|~0-9a-z-]+$/

/** A presigned request with its parameters `x-amz-...` as headers, because clients that sign an address move them there. */
export function withParametersAsHeaders(request: SignedRequest): SignedRequest {
  const moved = new Map<string, string[]>()
  for (const { name, value } of request.query)
    if (asHeader.test(name) && request.header(name).length === 0)
      moved.set(name, [...(moved.get(name) ?? []), Buffer.from(value).toString('latin1')])
  if (moved.size === 0) return request
  return {
    ...request,
    header: name => moved.get(name) ?? request.header(name),
    headerNames: () => [...request.headerNames(), ...moved.keys()],
  }
}

function canonicalPathsOf(path: string, decoded: Buffer): string[] {
  const whole = percentEncoded(decoded, true)
  if (!/%2f/i.test(path)) return [whole]
  const segments = path.split('/').map(segment => percentEncoded(percentDecoded(segment)))
  return [whole, segments.join('/')]
}

/** The path ends at the first `?`. Clients of a forward proxy send a scheme and a host before it. */
function splitTarget(target: string): [path: string, query: string] {
  const local = target.replace(/^https?:\/\/[^/?]*/i, '')
  const at = local.indexOf('?')
  const [path, query] = at === -1 ? [local, ''] : [local.slice(0, at), local.slice(at + 1)]
  return [path || '/', query]
}

/** A `+` of a query is a space, as in forms; `?name` is `?name=`. */
function parameters(query: string): Parameter[] {
  const pieces = query.split('&').filter(piece => piece !== '')
  return pieces.map(piece => {
    const at = piece.indexOf('=')
    const [name, value] = at === -1 ? [piece, ''] : [piece.slice(0, at), piece.slice(at + 1)]
    return { name: utf8(percentDecoded(formSpaces(name))), value: utf8(percentDecoded(formSpaces(value))) }
  })
}

const formSpaces = (text: string): string => text.replaceAll('+', '%20')

function percentDecoded(text: string): Buffer {
  if (!text.includes('%')) return Buffer.from(text, 'latin1')
  if (/%(?![0-9A-Fa-f]{2})/.test(text))
    throw new S3Error('InvalidArgument', 'The address has an incomplete percent-encoding.')
  return Buffer.from(
    text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function utf8(bytes: Buffer): string {
  try {
    return strict.decode(bytes)
  } catch {
    throw new S3Error('InvalidArgument', 'The address is not valid UTF-8.')
  }
}

const encodings = Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte)
  return /[A-Za-z0-9\-._~]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
})

/** Bytes encoded by RFC 3986: all but unreserved characters, and slashes if `withSlashes`. */
export function percentEncoded(bytes: Uint8Array, withSlashes = false): string {
  let text = ''
  for (const byte of bytes) text += withSlashes && byte === 0x2f ? '/' : encodings[byte]
  return text
}
