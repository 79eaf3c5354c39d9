import { z } from 'zod'
import { KiB } from '../../lib/bytes.ts'
import { readCappedJson } from '../../lib/read-capped.ts'
import type { CaptchaSettings } from '../../policy/accounts/captcha.ts'
import { CodedError } from '../../policy/errors.ts'
import type { Captcha } from './port.ts'

const verdict = z.object({
  success: z.boolean(),
  challenge_ts: z.coerce.date().optional(),
  'error-codes': z.array(z.string()).optional(),
})

/** Codes that refuse a visitor's answer; every other code is about the operator's settings or the provider itself. */
const refusals: readonly string[] = [
  'missing-input-response',
  'invalid-input-response',
  'timeout-or-duplicate',
  'expired-input-response',
  'already-seen-response',
]

const maxBytes = 64 * KiB

/** The `siteverify` protocol, which Turnstile, hCaptcha and reCAPTCHA share. */
export function siteverifyCaptcha({ verifyUrl, secretKey }: Pick<CaptchaSettings, 'verifyUrl' | 'secretKey'>): Captcha {
  return {
    async solvedAt(answer, address, deadline) {
      const body = new URLSearchParams({ secret: secretKey, response: answer, remoteip: address })
      const { data } = verdict.safeParse(await post(verifyUrl, body, deadline))
      if (data?.success && data.challenge_ts) return data.challenge_ts
      const codes = data?.['error-codes'] ?? []
      if (data?.success === false && codes.every(code => refusals.includes(code))) return null
      throw new CodedError('VALIDATION_FAILED', `The captcha could not be checked${reasonOf(codes)}. Try again later.`)
    },
  }
}

/** Rejects with FAILED_TO_FETCH or VALIDATION_TIMEOUT; the cause may contain the secret and is dropped. */
async function post(url: string, body: URLSearchParams, deadline: AbortSignal): Promise<unknown> {
  try {
    const response = await fetch(url, { method: 'POST', body, redirect: 'error', signal: deadline })
    if (response.status >= 500 || response.status === 429) throw new Error('busy')
    return await readCappedJson(response.body, maxBytes)
  } catch {
    if (deadline.aborted)
      throw new CodedError('VALIDATION_TIMEOUT', 'The captcha could not be checked in time. Try again.')
    throw new CodedError('FAILED_TO_FETCH', 'The provider of the captcha could not be reached. Try again.')
  }
}

/** Published codes are words; anything else is not repeated. */
function reasonOf(codes: string[]): string {
  const words = codes.filter(code => /^[a-z-]{1,40}$/.test(code))
  return words.length === 0 ? '' : ` (its provider answered: ${words.join(', ')})`
}
