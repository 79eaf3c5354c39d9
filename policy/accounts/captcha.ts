import { list, oneOf, required, webAddress } from '../environment.ts'
import { countryCodes } from './countries.ts'

/** How long a solved captcha may be submitted. */
export const captchaSeconds = 600

interface CaptchaProvider {
  /** Published addresses of the widget's script, and of the check of its answers. */
  script: string
  verify: string
  /** Global name of the script in the page; all three have the same interface. */
  widget: 'turnstile' | 'hcaptcha' | 'grecaptcha'
  /** Origins that the widget loads from, besides that of the script. */
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

/** The captcha provider, and the countries that must solve a captcha. */
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

/** The settings that a visitor's page needs. */
export type CaptchaWidget = Pick<CaptchaSettings, 'siteKey' | 'scriptUrl' | 'widget' | 'sources'>

type Setting = `CAPTCHA_${'COUNTRIES' | 'PROVIDER' | 'SITE_KEY' | 'SECRET_KEY' | 'SCRIPT_URL' | 'VERIFY_URL'}`

/** Null when no country must solve one. Throws an Error that names the missing or wrong setting. */
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
