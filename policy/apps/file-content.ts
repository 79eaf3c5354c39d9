import { MiB } from '../../lib/bytes.ts'
import { ApiError } from '../errors.ts'

/** The most bytes of a file that is read or written through the API. */
export const largestFileBytes = 10 * MiB

/** What is said of a larger one; the table's sentence speaks of uploads. */
export const fileTooLarge = () =>
  new ApiError('FILE_TOO_LARGE', 'A file that is read or written must be at most 10 MB.')

/**
 * The bytes that a body brings in `content`, or its alias `buffer`: a text, one of base64, a list of bytes, or a Buffer as
 * JSON shows it. Throws INVALID_CONTENT, INVALID_ENCODING and FILE_TOO_LARGE.
 */
export function fileContent({ content, buffer, encoding }: Record<string, unknown>): Uint8Array<ArrayBuffer> {
  const given = content ?? buffer
  const list = Array.isArray(given) ? given : listOf(given)
  // Empty content is an empty file, also as a list that is said to be base64.
  const empty = encoding === 'base64' && list?.length === 0
  if (encoding !== undefined && encoding !== null && !empty) return fromBase64(given, encoding)
  if (typeof given === 'string') return fromText(given)
  if (!list) throw new ApiError('INVALID_CONTENT')
  return fromList(list)
}

function fromText(text: string): Uint8Array<ArrayBuffer> {
  if (Buffer.byteLength(text) > largestFileBytes) throw fileTooLarge()
  if (/\p{Surrogate}/u.test(text)) throw new ApiError('INVALID_CONTENT', 'The content holds half a character.')
  return new Uint8Array(Buffer.from(text))
}

/** What the bytes of a file take as base64. */
export const longestBase64 = Math.ceil(largestFileBytes / 3) * 4

/** Line breaks, as tools make them, and missing padding are fine. */
function fromBase64(given: unknown, encoding: unknown): Uint8Array<ArrayBuffer> {
  if (encoding !== 'base64' || typeof given !== 'string') throw new ApiError('INVALID_ENCODING')
  const digits = given.replace(/[\r\n]+/g, '').replace(/={1,2}$/, '')
  const size = Math.floor((digits.length * 3) / 4)
  if (size > largestFileBytes) throw fileTooLarge()
  const bytes = /^[A-Za-z0-9+/]*$/.test(digits) && digits.length % 4 !== 1 ? Buffer.from(digits, 'base64') : null
  if (bytes?.length !== size) throw new ApiError('INVALID_ENCODING')
  return new Uint8Array(bytes)
}

function fromList(list: unknown[]): Uint8Array<ArrayBuffer> {
  if (list.length > largestFileBytes) throw fileTooLarge()
  const bytes = new Uint8Array(list.length)
  for (const [index, value] of list.entries()) {
    if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > 255)
      throw new ApiError('INVALID_CONTENT', 'A list holds the bytes of the file, each a number from 0 to 255.')
    bytes[index] = value as number
  }
  return bytes
}

function listOf(given: unknown): unknown[] | null {
  const { type, data } = (given ?? {}) as { type?: unknown; data?: unknown }
  return type === 'Buffer' && Array.isArray(data) ? data : null
}
