import { list, oneOf, required, webAddress } from '../environment.ts'
import { countryCodes } from './countries.ts'

/** A solved captcha may be handed in for this long. */
export const captchaSeconds = 600

interface CaptchaProvider {
  /** The script that shows the widget, and where an answer of it is checked: the published addresses. */
  script: string
  verify: string
  /** The name that the script takes in the page; what it has there is the same with all of them. */
  widget: 'turnstile' | 'hcaptcha' | 'grecaptcha'
  /** What the widget loads from, besides the script itself. */
  sources: readonly string[]
}

/** Providers of one protocol: an explicit `render` in the page, `siteverify` at the server. */
const providers = {
  turnstile: {
    script: 'https://challenges.cloudflare.com/turnstile/v0/api.js',
    verify: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
    widget: 'turnstile',
    sources: ['https://challenges.cloudflare.com'],
  },
  hcaptcha: {
    script: 'https://js.hcaptcha.com/1/api.js',
    verify: 'https://api.hcaptcha.com/siteverify',
    widget: 'hcaptcha',
    sources: ['https://hcaptcha.com', 'https://*.hcaptcha.com'],
  },
  recaptcha: {
    script: 'https://www.google.com/recaptcha/api.js',
    verify: 'https://www.google.com/recaptcha/api/siteverify',
    widget: 'grecaptcha',
    sources: [
      'https://www.google.com/recaptcha/',
      'https://www.gstatic.com/recaptcha/',
      'https://recaptcha.google.com',
    ],
  },
} as const satisfies Record<string, CaptchaProvider>

/** Where the captcha comes from, and who is asked to solve it. */
export interface CaptchaSettings {
  /** Two-letter codes. */
  countries: string[]
  siteKey: string
  secretKey: string
  scriptUrl: string
  verifyUrl: string
  widget: CaptchaProvider['widget']
  /** Origins and addresses that the page allows while the widget is shown. */
  sources: string[]
}

/** What a visitor's page has to know of it. */
export type CaptchaWidget = Pick<CaptchaSettings, 'siteKey' | 'scriptUrl' | 'widget' | 'sources'>

type Setting = `CAPTCHA_${'COUNTRIES' | 'PROVIDER' | 'SITE_KEY' | 'SECRET_KEY' | 'SCRIPT_URL' | 'VERIFY_URL'}`

/** Null when no country has to solve one. Throws an Error that names the setting that is missing or wrong. */
export function captchaSettings(env: Partial<Record<Setting, string>>): CaptchaSettings | null {
  const countries = countryCodes('CAPTCHA_COUNTRIES', list(env.CAPTCHA_COUNTRIES))
  if (countries.length === 0) return null
  required(env, 'CAPTCHA_PROVIDER')
  const provider = providers[oneOf(env, 'CAPTCHA_PROVIDER', ['turnstile', 'hcaptcha', 'recaptcha'])]
  const scriptUrl = env.CAPTCHA_SCRIPT_URL ? webAddress(env, 'CAPTCHA_SCRIPT_URL') : provider.script
  return {
    countries,
    siteKey: required(env, 'CAPTCHA_SITE_KEY'),
    secretKey: required(env, 'CAPTCHA_SECRET_KEY'),
    scriptUrl,
    verifyUrl: env.CAPTCHA_VERIFY_URL ? webAddress(env, 'CAPTCHA_VERIFY_URL') : provider.verify,
    widget: provider.widget,
    sources: [...new Set([new URL(scriptUrl).origin, ...provider.sources])],
  }
}
