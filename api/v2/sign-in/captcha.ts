import { z } from 'zod'
import { transaction } from '../../../db/database.ts'
import { captchaErrors, spend, verifyAnswer } from '../../pipeline/captcha.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

/** What a provider's widget returns once it is solved. */
export const captchaAnswer = z.string({ error: 'INVALID_REQUEST' }).max(8192, 'INVALID_REQUEST')

/** A session that was refused with CAPTCHA_REQUIRED is accepted from this address afterwards, until it expires. */
export const solveCaptcha = endpoint({
  name: 'account.captcha',
  method: 'POST',
  path: '/v2/account/captcha',
  summary: 'Submit a solved captcha for the session',
  auth: 'session',
  beforeCaptcha: true,
  body: z.object({ answer: captchaAnswer }),
  errors: ['INVALID_REQUEST', ...captchaErrors],
  async handle({ caller, body, exchange: { address } }, services) {
    const solved = await verifyAnswer(services, body.answer, address)
    await transaction(services.db, trx => spend(trx, { ...solved, sessionId: caller.user.credential_id }))
  },
})
