import { z } from 'zod'
import { changeSetting, rotateKey } from '../../../db/accounts/account-settings.ts'
import type { Db } from '../../../db/database.ts'
import { uncountRequest } from '../../../db/limits.ts'
import { choosableLocales } from '../../../policy/accounts/locales.ts'
import { username } from '../../../policy/accounts/usernames.ts'
import { ownCounters } from '../../../policy/counters.ts'
import { CodedError } from '../../../policy/errors.ts'
import { limits } from '../../../policy/limits.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

const change = z.object({ old: z.string(), new: z.string() })

/** Contract 3.3: replaces the one key with full access; it is shown only in this answer. */
export const rotateApiKey = endpoint({
  name: 'account.apikey',
  method: 'GET',
  path: '/v2/account/apikey',
  summary: 'Replace the API key of the account',
  auth: 'session',
  changes: true,
  response: z.object({ apiKey: z.string() }),
  async handle({ caller, exchange }, { db, config }) {
    const record = (trx: Db) => auditWithin(trx, 'account.apikey', { caller }, exchange)
    return { apiKey: await rotateKey(db, config.masterKey, caller.user.id, record) }
  },
})

export const changeLocale = endpoint({
  name: 'account.locale',
  method: 'PATCH',
  path: '/v2/account/locale',
  summary: 'Change the language of the account',
  auth: 'session',
  body: z.object({ locale: z.enum(choosableLocales, { error: 'INVALID_LOCALE' }) }),
  response: z.object({ locale: change }),
  errors: ['INVALID_LOCALE', 'SAME_LOCALE'],
  async handle({ caller, body }, { db }) {
    const old = await changeSetting(db, caller.user.id, 'locale', body.locale)
    if (old === null) throw new CodedError('SAME_LOCALE')
    return { locale: { old, new: body.locale } }
  },
})

export const changeUsername = endpoint({
  name: 'account.username',
  method: 'PATCH',
  path: '/v2/account/username',
  summary: 'Change the name of the account',
  auth: 'session',
  body: z.object({ username: z.string({ error: 'INVALID_USERNAME' }) }),
  response: z.object({ username: change }),
  errors: ['INVALID_USERNAME', 'SAME_USERNAME'],
  async handle({ caller, body }, { db, limiter, config: { rateLimitScale: scale } }) {
    const name = username(body.username)
    if (name === null) throw new CodedError('INVALID_USERNAME')
    const counted = 'account.username.changes'
    const changes = ownCounters(counted, limits[counted], { user: caller.user, scale })
    // Counted first and uncounted if refused, so that concurrent changes cannot exceed the limit.
    await limiter.admit(changes)
    const old = await changeSetting(db, caller.user.id, 'name', name)
    if (old !== null) return { username: { old, new: name } }
    await uncountRequest(db, changes)
    throw new CodedError('SAME_USERNAME')
  },
})
