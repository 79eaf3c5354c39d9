import { hasSolvedCaptcha, type SolvedCaptcha, spendCaptcha } from '../../db/accounts/captchas.ts'
import type { Db } from '../../db/database.ts'
import { type CaptchaWidget, captchaSeconds } from '../../policy/accounts/captcha.ts'
import { credentialHash } from '../../policy/accounts/credentials.ts'
import { ApiError, type ErrorCode } from '../../policy/errors.ts'
import type { Exchange } from '../http/call.ts'
import type { Caller } from './authenticate.ts'
import type { CoreServices } from './core-services.ts'

/** Below the deadline of clients, and well above what providers take. */
const patienceMs = 5000

/** What `checkedAnswer` and `spend` may refuse with. */
export const captchaErrors = [
  'CAPTCHA_REQUIRED',
  'VALIDATION_FAILED',
  'FAILED_TO_FETCH',
  'VALIDATION_TIMEOUT',
] as const satisfies ErrorCode[]

/** A session that is used from a country with captcha needs one, solved from the same address (contract 1.18). API keys pass. */
export async function checkCaptcha(
  { db, asksCaptcha }: Pick<CoreServices, 'db' | 'asksCaptcha'>,
  { kind, user }: Pick<Caller, 'kind' | 'user'>,
  address: string,
): Promise<void> {
  if (kind !== 'session' || !asksCaptcha(address)) return
  // Looked up each time: the caller that another process remembers does not know what was solved a moment ago.
  if (!(await hasSolvedCaptcha(db, user.credential_id, address))) throw new ApiError('CAPTCHA_REQUIRED')
}

/** The widget for whoever visits from this address; undefined where nobody is asked. */
export function widgetFor({ asksCaptcha, config }: CoreServices, { address }: Exchange): CaptchaWidget | undefined {
  return asksCaptcha(address) ? (config.captcha ?? undefined) : undefined
}

/** An answer that its provider calls genuine and fresh, ready to be spent. Throws one of `captchaErrors`. */
export async function checkedAnswer(
  { captcha }: Pick<CoreServices, 'captcha'>,
  answer: string | undefined,
  address: string,
): Promise<Pick<SolvedCaptcha, 'answerHash' | 'address'>> {
  if (!answer) throw new ApiError('CAPTCHA_REQUIRED')
  if (!captcha) throw new ApiError('VALIDATION_FAILED', 'This platform has no captcha set up.')
  const solvedAt = await captcha.solvedAt(answer, address, AbortSignal.timeout(patienceMs))
  if (!solvedAt || Date.now() - solvedAt.getTime() > captchaSeconds * 1000) throw notGood()
  return { answerHash: credentialHash(answer), address }
}

/** Makes it count. Throws CAPTCHA_REQUIRED when it has counted before. */
export async function spend(db: Db, captcha: SolvedCaptcha): Promise<void> {
  if (!(await spendCaptcha(db, captcha))) throw notGood()
}

const notGood = (): ApiError =>
  new ApiError('CAPTCHA_REQUIRED', 'The captcha was not solved, was used already, or is too old. Solve a new one.')
