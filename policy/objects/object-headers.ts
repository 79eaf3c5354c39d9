import { asWritten } from '../../lib/shown-names.ts'

/** What an object says about how it is to be shown; the columns of its row. */
export interface Shown {
  key: string
  content_type: string
  cache_control: string | null
  content_disposition: string | null
  original_name: string | null
}

/** What a link asks beyond that. */
export interface Look {
  disposition?: Disposition | null
  filename?: string | null
}

export type Disposition = 'inline' | 'attachment'

/** Types that a browser would run in the name of the host that serves them. */
const active = /^(text\/(html|xml|xsl)|application\/(xml|xhtml\+xml)|[^;]+\+xml)\s*(;|$)/i

/**
 * The headers that belong to the object itself, whoever reads it. Documents that could run scripts arrive as bytes to be saved,
 * unless inline was requested: then the browser shows them, and runs nothing (contract 7.8).
 */
export function objectHeaders(object: Shown, look: Look = {}): Record<string, string> {
  const isActive = active.test(object.content_type)
  const asked = look.disposition ?? (look.filename ? 'attachment' : (object.content_disposition as Disposition | null))
  const disposition = asked ?? (isActive ? 'attachment' : null)
  const asBytes = isActive && disposition !== 'inline'
  return {
    'Content-Type': asBytes ? 'application/octet-stream' : object.content_type,
    ...(isActive && { 'Content-Security-Policy': "sandbox; default-src 'none'" }),
    ...(disposition && { 'Content-Disposition': contentDisposition(disposition, look.filename ?? nameOf(object)) }),
    'X-Content-Type-Options': 'nosniff',
  }
}

/** Seconds until a CDN asks again, so that it drops a file which was made private (contract 7.21). */
const cdnSeconds = 60

/**
 * For everybody: any cache may keep it, as long as the object says. A CDN asks every minute all the same (RFC 9213), and any
 * page may show it, as is the purpose of a public file.
 */
export function publicHeaders({ cache_control }: Shown): Record<string, string> {
  const always = cache_control === 'immutable' ? 'max-age=31536000, immutable' : cache_control
  return {
    ...(always && { 'Cache-Control': `public, ${always}` }),
    'CDN-Cache-Control': cache_control === 'no-cache' ? 'no-cache' : `max-age=${cdnSeconds}`,
    'Cross-Origin-Resource-Policy': 'cross-origin',
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Expose-Headers': 'Accept-Ranges, Content-Range, ETag',
  }
}

/** For whoever holds the link, and no cache on the way. */
export const privateHeaders: Record<string, string> = {
  'Cache-Control': 'private, no-store',
  'Cross-Origin-Resource-Policy': 'same-site',
  'Referrer-Policy': 'no-referrer',
}

/** What something is left of by `fileName`. */
export const someOfFileName = /[^\p{Cc}\p{Bidi_Control}"\\/\s]/u

/** A file name without what would break out of a header or a folder, or show another end than it has; empty when nothing is left. */
export function fileName(text: string): string {
  const kept = asWritten(text)
    .replaceAll(/["\\/]/g, '')
    .trim()
  return [...kept].slice(0, 255).join('')
}

function nameOf({ original_name, key }: Shown): string {
  return fileName(original_name ?? '') || fileName(key.slice(key.lastIndexOf('/') + 1)) || 'file'
}

/** RFC 6266: the name for every client, and in full for those that read RFC 5987. */
function contentDisposition(disposition: Disposition, name: string): string {
  const ascii = name.replaceAll(/[^\x20-\x7e]/gu, '_')
  if (ascii === name && !name.includes('%')) return `${disposition}; filename="${name}"`
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, sign => `%${sign.charCodeAt(0).toString(16)}`)
  return `${disposition}; filename="${ascii.replaceAll('%', '_')}"; filename*=UTF-8''${encoded}`
}
