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
  /** Markup of our own, after the text; never anything that a person sent. */
  form?: string
  script?: string
  /** True: its form is sent to this platform, as forms are without a script. */
  posts?: true
  /** Shown on this page, so that what it loads is allowed here. */
  widget?: CaptchaWidget
  headers?: Record<string, string>
}

/** A small page that loads nothing but a captcha's widget, can be framed by nobody and tells no other site its address. */
export function page(given: Page): Reply {
  const { status = 200, language = 'en-US', title, text, form = '', script, widget, headers } = given
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
      'Content-Security-Policy': policyOf(given),
      // A provider of captchas wants to know which site asks; the rest of the address is nobody's business.
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

/** Text for the markup of a page. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, sign => entities[sign]!)
}

/** A value for the script of a page, where no text can end the script. */
export const inScript = (value: unknown): string => JSON.stringify(value ?? null).replaceAll('<', '\\u003c')
