import { z } from 'zod'
import { proposeLocale } from '../../../db/accounts/account-settings.ts'
import { createSession, revokeSession } from '../../../db/accounts/accounts.ts'
import { assignCaptchaToSession } from '../../../db/accounts/captchas.ts'
import { endSignIn, renewSession as extendSession, beginSignIn as saveSignIn } from '../../../db/accounts/sign-ins.ts'
import { transaction } from '../../../db/database.ts'
import { localeAccepted } from '../../../policy/accounts/locales.ts'
import { isMailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { signSession } from '../../../policy/accounts/sessions.ts'
import { signInSeconds } from '../../../policy/accounts/sign-in-mails.ts'
import { signInTerms } from '../../../policy/accounts/sign-in-terms.ts'
import { CodedError } from '../../../policy/errors.ts'
import { networkOf } from '../../http/address.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import { captchaErrors, spend, verifyAnswer } from '../../pipeline/captcha.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { captchaAnswer } from './captcha.ts'

const session = z.object({ token: z.string(), expires_at: isoTime })

/** Mails a code to the address if it belongs to an account; the answer does not reveal whether it does. */
export const beginSignIn = endpoint({
  name: 'account.sign-in.begin',
  method: 'POST',
  path: '/v2/account/sign-in',
  summary: 'Request a sign-in code by mail',
  auth: 'public',
  body: z.object({
    email: z.email({ error: 'INVALID_REQUEST' }).max(254, 'INVALID_REQUEST'),
    captcha: captchaAnswer.optional(),
  }),
  response: z.object({ id: z.string(), expires_in: z.int() }),
  errors: ['INVALID_REQUEST', ...captchaErrors],
  async handle({ body, exchange: { address } }, services) {
    const { db, asksCaptcha } = services
    const solved = asksCaptcha(address) ? await verifyAnswer(services, body.captcha, address) : undefined
    const id = await saveSignIn(db, {
      email: body.email,
      network: networkOf(address),
      admit: async (trx, signInId) => {
        if (solved) await spend(trx, { ...solved, signInId })
      },
    })
    return { id, expires_in: signInSeconds }
  },
})

export const completeSignIn = endpoint({
  name: 'account.sign-in.end',
  method: 'POST',
  path: '/v2/account/sign-in/code',
  summary: 'Sign in with the mailed code',
  auth: 'public',
  body: z.object({
    id: z.string({ error: 'INVALID_REQUEST' }).regex(/^[0-9a-f]{32}$/, 'INVALID_GRANT'),
    code: z.string({ error: 'INVALID_REQUEST' }),
  }),
  response: session,
  errors: ['INVALID_REQUEST', 'INVALID_GRANT'],
  async handle({ body: { id, code }, exchange }, { db, config: { masterKey } }) {
    const isRight = (codeOf: string) => isMailedCode(masterKey, 'sign-in', codeOf, code)
    // A code is used up only together with its session; a wrong code is an attempt, which is committed.
    const session = await transaction(db, async trx => {
      const userId = await endSignIn(trx, id, isRight)
      if (!userId) return undefined
      const languages = exchange.request.headers['accept-language']
      if (languages) await proposeLocale(trx, userId, localeAccepted(languages))
      const created = await createSession(trx, masterKey, { userId, lifeSeconds: signInTerms.sessionSeconds })
      await assignCaptchaToSession(trx, { signInId: id, sessionId: created.id, address: exchange.address })
      exchange.actor = userId
      await auditWithin(trx, 'account.sign-in.end', {}, exchange)
      return created
    })
    if (!session)
      throw new CodedError('INVALID_GRANT', 'The code is wrong, already used, or expired. Request a new one.')
    return { token: session.token, expires_at: session.expiresAt.toISOString() }
  },
})

/** Extends a session by another hour, up to 30 days after it was created. */
export const renewSession = endpoint({
  name: 'account.session.renew',
  method: 'POST',
  path: '/v2/account/session',
  summary: 'Renew the session',
  auth: 'session',
  response: session,
  async handle({ caller }, { db, config: { masterKey } }) {
    const { credential_id: id, id: userId } = caller.user
    const expiresAt = await extendSession(db, id, signInTerms.sessionSeconds)
    if (!expiresAt) throw new CodedError('ACCESS_DENIED', 'This session has reached its maximum age. Sign in again.')
    return { token: await signSession(masterKey, { id, userId, expiresAt }), expires_at: expiresAt.toISOString() }
  },
})

export const endSession = endpoint({
  name: 'account.session.end',
  method: 'DELETE',
  path: '/v2/account/session',
  summary: 'Sign out',
  auth: 'session',
  async handle({ caller }, { db }) {
    await revokeSession(db, caller.user.credential_id)
  },
})
