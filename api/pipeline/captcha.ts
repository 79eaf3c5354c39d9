import { hasSolvedCaptcha, type SolvedCaptcha, spendCaptcha } from '../../db/accounts/captchas.ts'
import type { Db } from '../../db/database.ts'
import { type CaptchaWidget, captchaSeconds } from '../../policy/accounts/captcha.ts'
import { credentialHash } from '../../policy/accounts/credentials.ts'
import { CodedError, type ErrorCode } from '../../policy/errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Caller } from './authenticate.ts'
import type { CoreServices } from './core-services.ts'

/** Below the timeout of clients, and well above the response time of providers. */
const timeoutMs = 5000

/** Codes that `verifyAnswer` and `spend` throw. */
export const captchaErrors = [
  'CAPTCHA_REQUIRED',
  'VALIDATION_FAILED',
  'FAILED_TO_FETCH',
  'VALIDATION_TIMEOUT',
] as const satisfies ErrorCode[]

/** A session from a country with a captcha must have solved one from the same address (contract 1.18). API keys are exempt. */
export async function checkCaptcha(
  { db, asksCaptcha }: Pick<CoreServices, 'db' | 'asksCaptcha'>,
  { kind, user }: Pick<Caller, 'kind' | 'user'>,
  address: string,
): Promise<void> {
  if (kind !== 'session' || !asksCaptcha(address)) return
  // Looked up each time: the cached caller of another process does not know what was solved a moment ago.
  if (!(await hasSolvedCaptcha(db, user.credential_id, address))) throw new CodedError('CAPTCHA_REQUIRED')
}

/** The widget for visitors from this address; undefined if their country needs no captcha. */
export function widgetFor({ asksCaptcha, config }: CoreServices, { address }: Exchange): CaptchaWidget | undefined {
  return asksCaptcha(address) ? (config.captcha ?? undefined) : undefined
}

/** Has the provider verify that an answer is genuine and recent; `spend` uses it up. Throws one of `captchaErrors`. */
export async function verifyAnswer(
  { captcha }: Pick<CoreServices, 'captcha'>,
  answer: string | undefined,
  address: string,
): Promise<Pick<SolvedCaptcha, 'answerHash' | 'address'>> {
  if (!answer) throw new CodedError('CAPTCHA_REQUIRED')
  if (!captcha) throw new CodedError('VALIDATION_FAILED', 'No captcha is set up on this platform.')
  const solvedAt = await captcha.solvedAt(answer, address, AbortSignal.timeout(timeoutMs))
  if (!solvedAt || Date.now() - solvedAt.getTime() > captchaSeconds * 1000) throw notGood()
  return { answerHash: credentialHash(answer), address }
}

/** Uses a verified answer up. Throws CAPTCHA_REQUIRED if it was used before. */
export async function spend(db: Db, captcha: SolvedCaptcha): Promise<void> {
  if (!(await spendCaptcha(db, captcha))) throw notGood()
}

const notGood = (): CodedError =>
  new CodedError('CAPTCHA_REQUIRED', 'The captcha was not solved, was already used, or has expired. Solve a new one.')
