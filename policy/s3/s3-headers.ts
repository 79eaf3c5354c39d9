import { contentTypeOf, extensionOf } from '../objects/object-types.ts'
import { checksumHeaders } from './s3-checksums.ts'
import { S3Error } from './s3-errors.ts'
import type { S3Facts } from './s3-facts.ts'
import { s3Limits } from './s3-limits.ts'
import { tagsOfHeader } from './s3-tags.ts'

type Header = (name: string) => readonly string[]

/** What the headers of a write say about its object. */
export interface WrittenHeaders {
  contentType: string
  cacheControl: string | null
  contentDisposition: string | null
  metadata: Record<string, string>
  s3: Omit<S3Facts, 'checksum'>
}

const metadataPrefix = 'x-amz-meta-'
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Reads the headers that are stored with the object of `key`. Throws MetadataTooLarge, InvalidTag, and what `refuseUnsupported` throws. */
export function writtenHeaders(header: Header, names: Iterable<string>, key: string): WrittenHeaders {
  const text = (name: string): string | undefined => {
    const values = header(name)
    return values.length === 0 ? undefined : fromWire(values.join(', ')) || undefined
  }
  const written = {
    contentType: text('content-type') ?? contentTypeOf(extensionOf(key) ?? ''),
    cacheControl: text('cache-control') ?? null,
    contentDisposition: text('content-disposition') ?? null,
    metadata: metadataOf(header, names),
    s3: {
      contentEncoding: withoutChunks(text('content-encoding')),
      contentLanguage: text('content-language'),
      expires: text('expires'),
      tags: tagsOfHeader(header('x-amz-tagging')[0]),
    },
  }
  assertHeaderBytes(written)
  return written
}

/** Rows count in no quota, so what they contain is bounded. Throws MetadataTooLarge. */
function assertHeaderBytes({ metadata, s3: { tags: _, ...s3 }, ...own }: WrittenHeaders): void {
  const values = [...Object.values(own), ...Object.values(s3), ...Object.entries(metadata).flat()]
  assertMetadata(
    values.reduce((sum, value) => sum + Buffer.byteLength(value ?? ''), 0),
    s3Limits.headerBytes,
  )
}

function assertMetadata(bytes: number, max: number): void {
  if (bytes > max)
    throw new S3Error('MetadataTooLarge', undefined, { Size: String(bytes), MaxSizeAllowed: String(max) })
}

function metadataOf(header: Header, names: Iterable<string>): Record<string, string> {
  const entries = [...names]
    .filter(name => name.startsWith(metadataPrefix))
    .map(name => [name.slice(metadataPrefix.length), decodedWords(fromWire(header(name).join(',')))] as const)
  if (entries.some(([, value]) => value.includes('\0')))
    throw new S3Error('InvalidArgument', 'Metadata must not contain the character NUL.')
  const bytes = entries.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0)
  assertMetadata(bytes, s3Limits.metadataBytes)
  return Object.fromEntries(entries)
}

/** `aws-chunked` describes how the body is sent, not what is stored. */
function withoutChunks(encoding: string | undefined): string | undefined {
  const codings = encoding?.split(',').map(coding => coding.trim())
  return codings?.filter(coding => coding !== '' && coding.toLowerCase() !== 'aws-chunked').join(',') || undefined
}

const strict = new TextDecoder('utf-8', { fatal: true })

/** Node gives headers as Latin-1; what is UTF-8 was meant as such. */
function fromWire(value: string): string {
  if (!/[\x80-\xff]/.test(value)) return value
  try {
    return strict.decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}

/** A header for Node, which sends each character as one byte. */
export const toWire = (value: string): string => Buffer.from(value).toString('latin1')

/** RFC 2047, with which programs send metadata that is not ASCII. */
function decodedWords(value: string): string {
  if (!value.includes('=?')) return value
  return value.replace(/=\?utf-8\?(b|q)\?([^?]*)\?=(?:\s+(?==\?))?/gi, (_, encoding: string, text: string) =>
    (encoding.toLowerCase() === 'b' ? Buffer.from(text, 'base64') : quotedBytes(text)).toString(),
  )
}

const quotedBytes = (text: string): Buffer =>
  Buffer.from(
    text
      .replaceAll('_', ' ')
      .replace(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )

const encodedWord = (value: string): string =>
  /^[\x20-\x7e\t]*$/.test(value) ? value : `=?UTF-8?B?${Buffer.from(value).toString('base64')}?=`

/** Columns of an object's row that its headers are made of. */
interface Shown {
  content_type: string
  cache_control: string | null
  content_disposition: string | null
  metadata: Record<string, string>
  s3: S3Facts | null
}

/** The headers of an object on the S3 wire. Nothing between the gateway and the client may store a response. */
export function shownHeaders(object: Shown, { withChecksum }: { withChecksum: boolean }): Record<string, string> {
  const { content_type, cache_control, content_disposition, metadata, s3 } = object
  const tagCount = Object.keys(s3?.tags ?? {}).length
  const all: Record<string, string | undefined> = {
    'Content-Type': content_type,
    'Cache-Control': cache_control === 'immutable' ? 'max-age=31536000, immutable' : (cache_control ?? 'no-store'),
    'CDN-Cache-Control': 'no-store',
    'Content-Disposition': content_disposition ?? undefined,
    'Content-Encoding': s3?.contentEncoding,
    'Content-Language': s3?.contentLanguage,
    Expires: s3?.expires,
    'X-Content-Type-Options': 'nosniff',
    'x-amz-tagging-count': tagCount > 0 ? String(tagCount) : undefined,
    ...(withChecksum && checksumHeaders(s3?.checksum)),
  }
  // The Blob API accepts names that no header can have. S3 says how many it cannot show.
  const shown = Object.entries(metadata).filter(([name]) => headerName.test(name))
  for (const [name, value] of shown) all[metadataPrefix + name] = encodedWord(value)
  const missing = Object.keys(metadata).length - shown.length
  if (missing > 0) all['x-amz-missing-meta'] = String(missing)
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, toWire(value)]])),
  )
}

/** Canned access control lists that say what the bucket does anyway. */
const acls: Record<'public' | 'private', readonly string[]> = {
  public: ['public-read', 'bucket-owner-full-control', 'bucket-owner-read'],
  private: ['private', 'bucket-owner-full-control', 'bucket-owner-read'],
}

/**
 * Refuses headers that request what Berth does not do, so that no client relies on it: other access control lists than the bucket's,
 * other storage classes, encryption by request, locks and redirects.
 */
export function refuseUnsupported(header: Header, names: Iterable<string>, isPublic: boolean): void {
  const acl = header('x-amz-acl')[0]
  if (acl !== undefined && !acls[isPublic ? 'public' : 'private'].includes(acl))
    throw new S3Error('AccessControlListNotSupported')
  const storageClass = header('x-amz-storage-class')[0]
  if (storageClass !== undefined && storageClass !== 'STANDARD') throw new S3Error('InvalidStorageClass')
  for (const name of names) {
    if (name.startsWith('x-amz-grant-')) throw new S3Error('AccessControlListNotSupported')
    if (unsupported.test(name)) throw new S3Error('NotImplemented', `The header ${name} is not supported.`)
  }
}

const unsupported =
  /^x-amz-(server-side-encryption.*|copy-source-server-side-encryption-.*|object-lock-.*|website-redirect-location|write-offset-bytes)$/
