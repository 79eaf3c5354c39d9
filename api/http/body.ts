import type { IncomingMessage, ServerResponse } from 'node:http'
import { isStorable } from '../../lib/storable-text.ts'
import { fileContent } from '../../policy/apps/file-content.ts'
import { CodedError } from '../../policy/errors.ts'
import type { BodyCharge } from './body-budget.ts'
import { watchPace } from './pace.ts'

const maxDepth = 64
/** Together with the linger after a refusal this ends slow senders within 35 s. */
const bodyDeadlineMs = 30_000

/** Throws INVALID_CONTENT_TYPE for a compressed body and PAYLOAD_TOO_LARGE for a declared length over `maxBytes`, before a byte is read. */
export function admitBody(request: IncomingMessage, maxBytes: number): void {
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
    throw new CodedError('INVALID_CONTENT_TYPE', 'Compressed request bodies are not accepted.')
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw new CodedError('PAYLOAD_TOO_LARGE')
}

/** Matches it among several expectations too, as Node does. */
const waitsForInvitation = /(?:^|\W)100-continue(?:$|\W)/i

/** Tells a client that waits for it (`Expect: 100-continue`) to send its body. HTTP 1.0 has no such answer. */
export function inviteBody({ headers, httpVersion }: IncomingMessage, response: ServerResponse): void {
  const waits = httpVersion === '1.1' && waitsForInvitation.test(headers.expect ?? '')
  if (waits && !response.headersSent) response.writeContinue()
}

export interface LargeBody {
  /** Counts every byte that arrives; ended by the caller. */
  charge: BodyCharge
  /** The minimum pace: bytes per second, measured over `overSeconds`; default: the platform's. */
  pace?: { bytesPerSecond: number; overSeconds: number }
}

/**
 * Reads the whole body into memory. Throws PAYLOAD_TOO_LARGE past `maxBytes` and INVALID_JSON_BODY when it does not arrive completely
 * within 30 s; for a large one also what `charge` throws, and INVALID_JSON_BODY when it arrives too slowly.
 */
export function readBody(request: IncomingMessage, maxBytes: number, large?: LargeBody): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    const torn = () => done(new CodedError('INVALID_JSON_BODY', 'The body did not arrive completely.'))
    const timer = setTimeout(torn, bodyDeadlineMs)
    const stopWatch = large && watchPace(request, torn, large.pace)
    const whole = () => done()
    const take = (chunk: Buffer) => {
      size += chunk.length
      if (size > maxBytes) return done(new CodedError('PAYLOAD_TOO_LARGE'))
      try {
        large?.charge.add(chunk.length)
      } catch (refusal) {
        return done(refusal as CodedError)
      }
      chunks.push(chunk)
    }
    function done(refusal?: CodedError): void {
      clearTimeout(timer)
      stopWatch?.()
      request.off('data', take).off('end', whole).off('close', torn)
      refusal ? reject(refusal) : resolve(Buffer.concat(chunks))
      chunks.length = 0
    }
    request.on('data', take).on('end', whole).on('close', torn)
    // A connection that has ended before emits no event any more.
    if (request.destroyed) torn()
  })
}

/** How a JSON body is parsed. */
export interface BodyForm {
  /** Callers choose names of fields: `__proto__` is kept like any other instead of being dropped. */
  anyName?: boolean
  /** `content`, or `buffer`, is a file: it becomes bytes, in whichever form it was sent. */
  file?: boolean
}

/**
 * The JSON object of a body, whatever its content type. An empty body is an empty object. Throws INVALID_JSON_BODY, and what
 * `fileContent` throws.
 */
export function parseBody(bytes: Uint8Array, { anyName = false, file = false }: BodyForm): Record<string, unknown> {
  const value = parseObject(bytes)
  const { content, buffer, ...rest } = value
  sanitize(file ? rest : value, anyName)
  return file ? { ...rest, content: fileContent(value) } : value
}

function parseObject(bytes: Uint8Array): Record<string, unknown> {
  if (bytes.length === 0) return {}
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new CodedError('INVALID_JSON_BODY')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new CodedError('INVALID_JSON_BODY')
  return value as Record<string, unknown>
}

/** Drops every `__proto__` unless `anyName`, and refuses what is nested too deeply. An explicit stack, because the input decides the depth. */
function sanitize(root: object, anyName: boolean): void {
  const open: [object, number][] = [[root, 1]]
  for (let next = open.pop(); next; next = open.pop()) {
    const [value, depth] = next
    if (depth > maxDepth)
      throw new CodedError('INVALID_JSON_BODY', `The body is nested deeper than ${maxDepth} levels.`)
    if (!anyName && Object.hasOwn(value, '__proto__')) Reflect.deleteProperty(value, '__proto__')
    for (const child of Object.values(value))
      if (typeof child === 'object' && child !== null) open.push([child, depth + 1])
  }
}

/** The path to the first text with a NUL or a lone surrogate, which no database stores unchanged; undefined when there is none. */
export function unstorableAt(value: unknown): readonly string[] | undefined {
  if (typeof value === 'string') return isStorable(value) ? undefined : []
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return undefined
  for (const [key, child] of Object.entries(value)) {
    if (!isStorable(key)) return []
    const below = unstorableAt(child)
    if (below) return [key, ...below]
  }
  return undefined
}
