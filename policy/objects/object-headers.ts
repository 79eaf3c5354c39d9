import { asWritten } from '../../lib/shown-names.ts'

/** Columns of an object's row that determine its headers. */
export interface Shown {
  key: string
  content_type: string
  cache_control: string | null
  content_disposition: string | null
  original_name: string | null
}

/** What a link may override. */
export interface Look {
  disposition?: Disposition | null
  filename?: string | null
}

export type Disposition = 'inline' | 'attachment'

/** Types that a browser would execute in the origin of the serving host. */
const active = /^(text\/(html|xml|xsl)|application\/(xml|xhtml\+xml)|[^;]+\+xml)\s*(;|$)/i

/**
 * The headers of the object itself, for every reader. Documents that could run scripts are sent as downloads, unless inline was
 * requested: then the browser shows them in a sandbox (contract 7.8).
 */
export function objectHeaders(object: Shown, look: Look = {}): Record<string, string> {
  const isActive = active.test(object.content_type)
  const requested =
    look.disposition ?? (look.filename ? 'attachment' : (object.content_disposition as Disposition | null))
  const disposition = requested ?? (isActive ? 'attachment' : null)
  const asBytes = isActive && disposition !== 'inline'
  return {
    'Content-Type': asBytes ? 'application/octet-stream' : object.content_type,
    ...(isActive && { 'Content-Security-Policy': "sandbox; default-src 'none'" }),
    ...(disposition && { 'Content-Disposition': contentDisposition(disposition, look.filename ?? nameOf(object)) }),
    'X-Content-Type-Options': 'nosniff',
  }
}

/** Seconds until a CDN revalidates, so that it drops a file that was made private (contract 7.21). */
const cdnSeconds = 60

/**
 * For public objects: any cache may store them for as long as the object says. CDNs revalidate every minute all the same (RFC 9213). Any
 * page may embed them, which is the purpose of a public file.
 */
export function publicHeaders({ cache_control }: Shown): Record<string, string> {
  const directives = cache_control === 'immutable' ? 'max-age=31536000, immutable' : cache_control
  return {
    ...(directives && { 'Cache-Control': `public, ${directives}` }),
    'CDN-Cache-Control': cache_control === 'no-cache' ? 'no-cache' : `max-age=${cdnSeconds}`,
    'Cross-Origin-Resource-Policy': 'cross-origin',
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Expose-Headers': 'Accept-Ranges, Content-Range, ETag',
  }
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
