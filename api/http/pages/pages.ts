import { createHash } from 'node:crypto'
import type { CaptchaWidget } from '../../../policy/accounts/captcha.ts'
import type { MailLocale } from '../../../policy/mail/template.ts'
import type { Reply } from '../respond.ts'
import { pageStyle } from './page-style.ts'

export interface Page {
  status?: number
  language?: MailLocale
  title: string
  /** Paragraphs of plain text. */
  text: readonly string[]
  /** Markup after the text; never anything that a user sent. */
  form?: string
  script?: string
  /** True: its form is submitted to this platform without a script. */
  posts?: true
  /** The captcha widget on this page; the page then allows what the widget loads. */
  widget?: CaptchaWidget
  headers?: Record<string, string>
}

/** A small page that loads nothing but a captcha's widget, cannot be framed and sends its address to no other site. */
export function page(content: Page): Reply {
  const { status = 200, language = 'en-US', title, text, form = '', script, widget, headers } = content
  const body = [
    `<!doctype html><html lang="${language}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`,
    `<title>${escaped(title)} - Berth</title><style>${pageStyle}</style><main><h1>${escaped(title)}</h1>`,
    ...text.map(paragraph => `<p>${escaped(paragraph)}</p>`),
    `${form}</main>`,
    script === undefined ? '' : `<script>${script}</script>`,
  ].join('\n')
  return {
    status,
    body,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'no-store',
      'Content-Security-Policy': policyOf(content),
      // Captcha providers need to know the site, but not the rest of the address.
      'Referrer-Policy': widget ? 'origin' : 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
      ...headers,
    },
  }
}

function policyOf({ script, posts, widget }: Page): string {
  const others = widget ? ` ${widget.sources.join(' ')}` : ''
  return [
    "default-src 'none'",
    `style-src '${hashOf(pageStyle)}'${others}`,
    script === undefined ? '' : `script-src '${hashOf(script)}'${others}; connect-src 'self'${others}`,
    widget ? `frame-src${others}` : '',
    `base-uri 'none'; form-action '${posts ? 'self' : 'none'}'; frame-ancestors 'none'`,
  ]
    .filter(Boolean)
    .join('; ')
}

const hashOf = (source: string): string => `sha256-${createHash('sha256').update(source).digest('base64')}`

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Text, escaped for the markup of a page. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, sign => entities[sign]!)
}

/** A value for the script of a page, escaped so that no text can end the script. */
export const inScript = (value: unknown): string => JSON.stringify(value ?? null).replaceAll('<', '\\u003c')
