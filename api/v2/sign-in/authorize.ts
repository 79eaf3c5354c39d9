import { randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import * as authorizations from '../../../db/accounts/authorizations.ts'
import { credentialHash } from '../../../policy/accounts/credentials.ts'
import { loopbackRedirect } from '../../../policy/accounts/redirects.ts'
import { scopes } from '../../../policy/accounts/scopes.ts'
import { authorizationTerms } from '../../../policy/accounts/sign-in-terms.ts'
import { CodedError } from '../../../policy/errors.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'

const text = z.string({ error: 'INVALID_REQUEST' })
const code = text.regex(/^[0-9a-f]{64}$/, 'INVALID_GRANT')
const redirect = z
  .string({ error: 'INVALID_REDIRECT_URI' })
  .refine(uri => loopbackRedirect(uri) !== null, 'INVALID_REDIRECT_URI')
const grantedScopes = z.array(z.enum(scopes, { error: 'INVALID_SCOPE' }), { error: 'INVALID_SCOPE' })

/** Contract 3.9: a program without a key opens `{base_url}/authorize?code=<code>` in a browser. */
export const beginAuthorization = endpoint({
  name: 'account.authorize.start',
  method: 'POST',
  path: '/v2/account/authorize/start',
  summary: 'Start a request for an API key, which a person grants',
  auth: 'public',
  body: z.object({
    client_id: text.regex(/^(?=.*[!-~])[ -~]{1,64}$/, 'INVALID_REQUEST'),
    redirect_uri: redirect,
    scopes: grantedScopes.min(1, 'INVALID_SCOPE').transform(list => [...new Set(list)]),
    challenge: text.regex(/^[\w-]{43}$/, 'INVALID_REQUEST'),
    challenge_method: z.literal('S256', { error: 'INVALID_REQUEST' }),
  }),
  response: z.object({ code: z.string(), display: z.string(), expires_in: z.int(), interval: z.int() }),
  errors: ['INVALID_REQUEST', 'INVALID_REDIRECT_URI', 'INVALID_SCOPE'],
  async handle({ body }, { db }) {
    const newCode = randomBytes(32).toString('hex')
    const display = newDisplay()
    const { client_id: client, redirect_uri, scopes, challenge } = body
    const row = { code_hash: credentialHash(newCode), display, client, redirect_uri, scopes, challenge }
    await authorizations.beginAuthorization(db, row)
    return {
      code: newCode,
      display,
      expires_in: authorizationTerms.seconds,
      interval: authorizationTerms.intervalSeconds,
    }
  },
})

/** What the page shows when it asks for consent. */
export const getAuthorization = endpoint({
  name: 'account.authorize.show',
  method: 'GET',
  path: '/v2/account/authorize',
  summary: 'Show the access that a program requests',
  auth: 'session',
  query: z.object({ code }),
  response: z.object({ display: z.string(), client_id: z.string(), scopes: z.array(z.string()), account: z.string() }),
  errors: ['INVALID_GRANT', 'INVALID_REQUEST'],
  async handle({ caller, query }, { db }) {
    const request = await authorizations.openAuthorization(db, credentialHash(query.code))
    if (!request) throw new CodedError('INVALID_GRANT')
    return { display: request.display, client_id: request.client, scopes: request.scopes, account: caller.user.email }
  },
})

export const decideAuthorization = endpoint({
  name: 'account.authorize.decide',
  method: 'POST',
  path: '/v2/account/authorize',
  summary: 'Grant or deny a program an API key',
  auth: 'session',
  body: z.object({ code, granted: z.boolean({ error: 'INVALID_REQUEST' }) }),
  response: z.object({ redirect: z.string() }),
  errors: ['INVALID_GRANT', 'INVALID_REQUEST'],
  async handle({ caller, body }, { db }) {
    const decision = body.granted ? 'granted' : 'denied'
    const decided = await authorizations.decideAuthorization(db, credentialHash(body.code), caller.user.id, decision)
    if (!decided) throw new CodedError('INVALID_GRANT')
    const back = new URL(decided.redirect_uri)
    if (body.granted) back.searchParams.set('code', body.code)
    else back.searchParams.set('error', 'access_denied')
    return { redirect: back.href }
  },
})

/** Contract 3.12. */
export const claimAuthorization = endpoint({
  name: 'account.authorize.claim',
  method: 'POST',
  path: '/v2/account/authorize/claim',
  summary: 'Fetch the API key that a person has granted',
  auth: 'public',
  body: z.object({ code, verifier: z.unknown().optional(), redirect_uri: z.unknown().optional() }),
  response: z.object({
    api_key: z.string(),
    account: z.object({ id: z.string(), email: z.string() }),
    scopes: z.array(z.string()),
    expires_at: isoTime,
  }),
  errors: [
    'AUTHORIZATION_PENDING',
    'INVALID_VERIFIER',
    'INVALID_REDIRECT_URI',
    'INVALID_REQUEST',
    'INVALID_GRANT',
    'APIKEY_LIMIT_REACHED',
  ],
  async handle({ body, exchange }, { db, config }) {
    const { verifier, redirect_uri: uri } = body
    const {
      key,
      userId,
      email,
      scopes: list,
      expiresAt,
    } = await authorizations.claimKey(db, config.masterKey, {
      codeHash: credentialHash(body.code),
      refusal({ challenge, redirect_uri }) {
        if (typeof verifier !== 'string' || typeof uri !== 'string') return 'INVALID_REQUEST'
        if (!answers(challenge, verifier)) return 'INVALID_VERIFIER'
        return uri === redirect_uri ? null : 'INVALID_REDIRECT_URI'
      },
      async record(trx, granted) {
        exchange.actor = granted.userId
        exchange.resource = granted.keyId
        await auditWithin(trx, 'account.authorize.claim', {}, exchange)
      },
    })
    return {
      api_key: key,
      account: { id: userId, email },
      scopes: list,
      expires_at: expiresAt.toISOString(),
    }
  },
})

/** Whether the verifier matches the challenge with which the program started (RFC 7636, S256). */
function answers(challenge: string, verifier: string): boolean {
  const actual = Buffer.from(credentialHash(verifier).toString('base64url'))
  const expected = Buffer.from(challenge)
  return actual.length === expected.length && timingSafeEqual(actual, expected)
}

const letters = 'BCDFGHJKLMNPQRSTVWXZ'

/** Eight consonants in two groups: easy to compare, and never a word by accident. */
function newDisplay(): string {
  const group = () => Array.from({ length: 4 }, () => letters[randomInt(letters.length)]).join('')
  return `${group()}-${group()}`
}
