import { MiB } from '../../lib/bytes.ts'
import { CodedError } from '../errors.ts'

/** Max bytes of a file that is read or written through the API. */
export const maxFileBytes = 10 * MiB

/** The error for a larger file; the table's message is about uploads. */
export const fileTooLarge = () =>
  new CodedError('FILE_TOO_LARGE', 'A file that is read or written must be at most 10 MB.')

/**
 * The bytes of a body's field `content`, or its alias `buffer`: a string, a base64 string, an array of bytes, or a Buffer serialized as
 * JSON. Throws INVALID_CONTENT, INVALID_ENCODING and FILE_TOO_LARGE.
 */
export function fileContent({ content, buffer, encoding }: Record<string, unknown>): Uint8Array<ArrayBuffer> {
  const given = content ?? buffer
  const list = Array.isArray(given) ? given : listOf(given)
  // Empty content is an empty file, even as an array with encoding base64.
  const empty = encoding === 'base64' && list?.length === 0
  if (encoding !== undefined && encoding !== null && !empty) return fromBase64(given, encoding)
  if (typeof given === 'string') return fromText(given)
  if (!list) throw new CodedError('INVALID_CONTENT')
  return fromList(list)
}

function fromText(text: string): Uint8Array<ArrayBuffer> {
  if (Buffer.byteLength(text) > maxFileBytes) throw fileTooLarge()
  if (/\p{Surrogate}/u.test(text))
    throw new CodedError('INVALID_CONTENT', 'The content must not contain unpaired surrogates.')
  return new Uint8Array(Buffer.from(text))
}

/** Max length of a file's content as base64. */
export const maxBase64Length = Math.ceil(maxFileBytes / 3) * 4

/** Accepts line breaks, as tools insert them, and missing padding. */
function fromBase64(given: unknown, encoding: unknown): Uint8Array<ArrayBuffer> {
  if (encoding !== 'base64' || typeof given !== 'string') throw new CodedError('INVALID_ENCODING')
  const digits = given.replace(/[\r\n]+/g, '').replace(/={1,2}$/, '')
  const size = Math.floor((digits.length * 3) / 4)
  if (size > maxFileBytes) throw fileTooLarge()
  const bytes = /^[A-Za-z0-9+/]*$/.test(digits) && digits.length % 4 !== 1 ? Buffer.from(digits, 'base64') : null
  if (bytes?.length !== size) throw new CodedError('INVALID_ENCODING')
  return new Uint8Array(bytes)
}

function fromList(list: unknown[]): Uint8Array<ArrayBuffer> {
  if (list.length > maxFileBytes) throw fileTooLarge()
  const bytes = new Uint8Array(list.length)
  for (const [index, value] of list.entries()) {
    if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > 255)
      throw new CodedError(
        'INVALID_CONTENT',
        'An array must contain the bytes of the file, each a number from 0 to 255.',
      )
    bytes[index] = value as number
  }
  return bytes
}

function listOf(given: unknown): unknown[] | null {
  const { type, data } = (given ?? {}) as { type?: unknown; data?: unknown }
  return type === 'Buffer' && Array.isArray(data) ? data : null
}
