import type { IncomingMessage, ServerResponse } from 'node:http'
import { MiB } from '../../lib/bytes.ts'
import { isStorable } from '../../lib/storable-text.ts'
import { fileContent } from '../../policy/apps/file-content.ts'
import { ApiError } from '../../policy/errors.ts'
import type { BodyCharge } from './body-budget.ts'
import { keepPace } from './pace.ts'

const deepest = 64
/** What a JSON body takes where its endpoint does not say otherwise; larger ones are parsed aside. */
export const ordinaryBodyBytes = MiB
/** With the linger after a refusal this ends slow senders within 35 s. */
const bodyDeadlineMs = 30_000

/** Throws INVALID_CONTENT_TYPE for a compressed body and PAYLOAD_TOO_LARGE for a declared length over the cap, before a byte is read. */
export function admitBody(request: IncomingMessage, maxBytes: number): void {
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
    throw new ApiError('INVALID_CONTENT_TYPE', 'Compressed request bodies are not accepted.')
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw new ApiError('PAYLOAD_TOO_LARGE')
}

/** Also one of several expectations, as Node reads it. */
const waitsForInvitation = /(?:^|\W)100-continue(?:$|\W)/i

/** Answers a client that waits before it sends its body (`Expect: 100-continue`). HTTP 1.0 has no such answer. */
export function inviteBody({ headers, httpVersion }: IncomingMessage, response: ServerResponse): void {
  const waits = httpVersion === '1.1' && waitsForInvitation.test(headers.expect ?? '')
  if (waits && !response.headersSent) response.writeContinue()
}

export interface LargeBody {
  /** Told of every byte that arrives; who reads the body ends it. */
  charge: BodyCharge
  /** Bytes per second, over so many seconds; the platform's when left out. */
  pace?: { bytesPerSecond: number; overSeconds: number }
}

/**
 * The whole body in memory. Throws PAYLOAD_TOO_LARGE past `maxBytes`, INVALID_JSON_BODY when it does not arrive whole within 30 s, and
 * of a large one what `charge` throws, and INVALID_JSON_BODY when it comes too slowly.
 */
export function readBody(request: IncomingMessage, maxBytes: number, large?: LargeBody): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    const torn = () => done(new ApiError('INVALID_JSON_BODY', 'The body did not arrive whole.'))
    const timer = setTimeout(torn, bodyDeadlineMs)
    const stopWatch = large && keepPace(request, torn, large.pace)
    const whole = () => done()
    const take = (chunk: Buffer) => {
      size += chunk.length
      if (size > maxBytes) return done(new ApiError('PAYLOAD_TOO_LARGE'))
      try {
        large?.charge.add(chunk.length)
      } catch (refusal) {
        return done(refusal as ApiError)
      }
      chunks.push(chunk)
    }
    function done(refusal?: ApiError): void {
      clearTimeout(timer)
      stopWatch?.()
      request.off('data', take).off('end', whole).off('close', torn)
      refusal ? reject(refusal) : resolve(Buffer.concat(chunks))
      chunks.length = 0
    }
    request.on('data', take).on('end', whole).on('close', torn)
    // An end that came before emits no event any more.
    if (request.destroyed) torn()
  })
}

/** How a body is read beyond its being JSON. */
export interface BodyForm {
  /** Names of fields may be the caller's own: `__proto__` is one to keep and not one to drop. */
  anyName?: boolean
  /** `content`, or `buffer`, is a file: it becomes bytes, whatever shape it comes in. */
  file?: boolean
}

/**
 * The JSON object of a body, whatever its content type; an empty body is an empty object. Throws INVALID_JSON_BODY, and what
 * `fileContent` throws.
 */
export function parseBody(bytes: Uint8Array, { anyName = false, file = false }: BodyForm): Record<string, unknown> {
  const value = parseObject(bytes)
  const { content, buffer, ...rest } = value
  tame(file ? rest : value, anyName)
  return file ? { ...rest, content: fileContent(value) } : value
}

function parseObject(bytes: Uint8Array): Record<string, unknown> {
  if (bytes.length === 0) return {}
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new ApiError('INVALID_JSON_BODY')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new ApiError('INVALID_JSON_BODY')
  return value as Record<string, unknown>
}

/** Drops every `__proto__` unless any name will do, and refuses what is nested too deep. A stack of our own: the input chooses the depth. */
function tame(root: object, anyName: boolean): void {
  const open: [object, number][] = [[root, 1]]
  for (let next = open.pop(); next; next = open.pop()) {
    const [value, depth] = next
    if (depth > deepest) throw new ApiError('INVALID_JSON_BODY', `The body is nested deeper than ${deepest} levels.`)
    if (!anyName && Object.hasOwn(value, '__proto__')) Reflect.deleteProperty(value, '__proto__')
    for (const child of Object.values(value))
      if (typeof child === 'object' && child !== null) open.push([child, depth + 1])
  }
}

/** Where in a value the first text with a NUL or a lone surrogate lies, which no store keeps as it is; undefined when there is none. */
export function unstorableAt(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (typeof value === 'string') return isStorable(value) ? undefined : path
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return undefined
  for (const [key, child] of Object.entries(value)) {
    const found = isStorable(key) ? unstorableAt(child, [...path, key]) : path
    if (found) return found
  }
  return undefined
}
