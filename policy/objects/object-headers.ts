import { asWritten } from '../../lib/shown-names.ts'
import type { S3Facts } from '../s3/s3-facts.ts'
import { toWire } from '../s3/s3-headers.ts'
import { isOpaque, mayRun } from './object-types.ts'

/** Columns of an object's row that determine its headers. */
export interface Shown {
  key: string
  /** Anything that a client of S3 sent. */
  content_type: string
  /** A form of the Blob API, or the whole header of a client of S3; the disposition as well. */
  cache_control: string | null
  content_disposition: string | null
  original_name: string | null
  s3: S3Facts | null
}

/** What a link may override. */
export interface Look {
  disposition?: Disposition | null
  filename?: string | null
}

export type Disposition = 'inline' | 'attachment'

/** Runs nothing, and has no origin. */
export const sandbox = { 'Content-Security-Policy': "sandbox; default-src 'none'" }

/**
 * The headers of the object itself, for every reader. Documents that could run scripts are sent as downloads, unless inline was
 * requested: then the browser shows them in a sandbox (contract 7.8). Types of which a browser might make anything are never named.
 */
export function objectHeaders(object: Shown, look: Look = {}): Record<string, string> {
  const { content_type, content_disposition, s3 } = object
  const runs = mayRun(content_type)
  const requested = look.disposition ?? (look.filename ? 'attachment' : dispositionOf(content_disposition))
  const disposition = requested ?? (runs ? 'attachment' : null)
  const asBytes = isOpaque(content_type) || (runs && disposition !== 'inline')
  return {
    'Content-Type': asBytes ? 'application/octet-stream' : content_type,
    ...(runs && sandbox),
    ...(disposition && { 'Content-Disposition': dispositionHeader(disposition, object, look) }),
    ...(s3?.contentEncoding && { 'Content-Encoding': toWire(s3.contentEncoding) }),
    ...(s3?.contentLanguage && { 'Content-Language': toWire(s3.contentLanguage) }),
    'X-Content-Type-Options': 'nosniff',
  }
}

/** What a stored disposition means; one that browsers do not know is a download, as RFC 6266 says. */
export function dispositionOf(stored: string | null): Disposition | null {
  if (!stored) return null
  return /^inline\s*(;|$)/i.test(stored) ? 'inline' : 'attachment'
}

/** A whole header that a client of S3 sent stays as it is, unless a link says something else. */
function dispositionHeader(disposition: Disposition, object: Shown, { filename }: Look): string {
  const stored = object.content_disposition
  const isWhole = stored !== null && /^(?:inline|attachment)\s*;/i.test(stored)
  if (isWhole && !filename && dispositionOf(stored) === disposition) return toWire(stored)
  return contentDisposition(disposition, filename ?? nameOf(object))
}

/** Seconds until a CDN revalidates, so that it drops a file that was made private (contract 7.21). */
const cdnSeconds = 60

/** Values of the Blob API; every other one is a whole header of a client of S3. */
const directive = /^(?:no-cache|max-age=\d+)$/

/**
 * For public objects: any cache may store them for as long as the object says. CDNs revalidate every minute all the same (RFC 9213). Any
 * page may embed them, which is the purpose of a public file.
 */
export function publicHeaders({ cache_control, s3 }: Shown): Record<string, string> {
  const directives = cache_control === 'immutable' ? 'max-age=31536000, immutable' : cache_control
  const isWhole = cache_control !== 'immutable' && !directive.test(cache_control ?? '')
  return {
    ...(directives && { 'Cache-Control': isWhole ? toWire(directives) : `public, ${directives}` }),
    ...(s3?.expires && { Expires: toWire(s3.expires) }),
    'CDN-Cache-Control': cdnControl(cache_control ?? ''),
    'Cross-Origin-Resource-Policy': 'cross-origin',
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Expose-Headers': 'Accept-Ranges, Content-Range, ETag',
  }
}

/** What a CDN may store of it: never more than the object says. */
function cdnControl(cacheControl: string): string {
  if (/\b(?:no-store|private)\b/i.test(cacheControl)) return 'no-store'
  if (/\bno-cache\b/i.test(cacheControl)) return 'no-cache'
  const seconds = /\bs-maxage="?(\d+)/i.exec(cacheControl) ?? /\bmax-age="?(\d+)/i.exec(cacheControl)
  return `max-age=${Math.min(cdnSeconds, Number(seconds?.[1] ?? cdnSeconds))}`
}

/** For holders of a link; no shared cache may store it. */
export const privateHeaders: Record<string, string> = {
  'Cache-Control': 'private, no-store',
  'Cross-Origin-Resource-Policy': 'same-site',
  'Referrer-Policy': 'no-referrer',
}

/** Matches texts of which `fileName` leaves something. */
export const someOfFileName = /[^\p{Cc}\p{Bidi_Control}"\\/\s]/u

/** A file name without characters that would break out of a header or folder, or disguise its extension; empty when none are left. */
export function fileName(text: string): string {
  const safe = asWritten(text)
    .replaceAll(/["\\/]/g, '')
    .trim()
  return [...safe].slice(0, 255).join('')
}

function nameOf({ original_name, key }: Shown): string {
  return fileName(original_name ?? '') || fileName(key.slice(key.lastIndexOf('/') + 1)) || 'file'
}

/** RFC 6266: an ASCII name for every client, and the full name for those that support RFC 5987. */
function contentDisposition(disposition: Disposition, name: string): string {
  const ascii = name.replaceAll(/[^\x20-\x7e]/gu, '_')
  if (ascii === name && !name.includes('%')) return `${disposition}; filename="${name}"`
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, sign => `%${sign.charCodeAt(0).toString(16)}`)
  return `${disposition}; filename="${ascii.replaceAll('%', '_')}"; filename*=UTF-8''${encoded}`
}
