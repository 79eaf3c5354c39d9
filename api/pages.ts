import { createHash } from 'node:crypto'
import type { Reply } from './respond.ts'

export interface Page {
  status?: number
  title: string
  /** Paragraphs of plain text. */
  text: readonly string[]
  /** Markup of our own, after the text; never anything that a person sent. */
  form?: string
  script?: string
  headers?: Record<string, string>
}

const style =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}input,button{font:inherit;padding:.4rem .6rem;margin:.2rem 0}input{width:100%;box-sizing:border-box}'

/** A small page that loads nothing, can be framed by nobody and tells no other site where the person came from. */
export function page({ status = 200, title, text, form = '', script, headers }: Page): Reply {
  const policy = [
    "default-src 'none'",
    `style-src '${hashOf(style)}'`,
    script === undefined ? '' : `script-src '${hashOf(script)}'; connect-src 'self'`,
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ]
  const body = [
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`,
    `<title>${escaped(title)} - Berth</title><style>${style}</style><h1>${escaped(title)}</h1>`,
    ...text.map(paragraph => `<p>${escaped(paragraph)}</p>`),
    form,
    script === undefined ? '' : `<script>${script}</script>`,
  ].join('\n')
  return {
    status,
    body,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'no-store',
      'Content-Security-Policy': policy.filter(Boolean).join('; '),
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
      ...headers,
    },
  }
}

const hashOf = (source: string): string => `sha256-${createHash('sha256').update(source).digest('base64')}`

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, sign => entities[sign]!)
}
