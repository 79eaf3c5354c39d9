import { z } from 'zod'
import type { Db } from '../../db/database.ts'
import {
  findOwnShare,
  listShares as findShares,
  createShare as insertShare,
  revokeShare,
} from '../../db/objects/shares.ts'
import { signatureOf } from '../../lib/signed-text.ts'
import { CodedError } from '../../policy/errors.ts'
import { shareIdPattern } from '../../policy/ids.ts'
import { deriveKey } from '../../policy/keys.ts'
import { assertOption } from '../../policy/objects/blob-options.ts'
import { assertWithin, isKeyWithin } from '../../policy/objects/prefix-limits.ts'
import { linkTerms } from '../../policy/request-caps.ts'
import { characters } from '../../policy/stated-bounds.ts'
import { auditWithin } from '../pipeline/audit.ts'
import { isoTime, optional, withDefault } from '../pipeline/fields.ts'
import { idempotencyErrors, idempotent } from '../pipeline/idempotent.ts'
import { createdShareView, shareView } from '../views/share.ts'
import { blobEndpoint } from './blob-endpoint.ts'
import { objectField, ownObject, ownObjectErrors } from './objects/own-object.ts'
import { hashPassword } from './share-passwords.ts'

const text = z.string()

/** Contract 7.26: in the answer to its creation and in the list. */
const link = { id: text, url: text, object: text, expires_at: isoTime, password: z.boolean() }

const whole = (code: string, { min, max }: { min: number; max: number }) =>
  z.int({ error: code }).min(min, code).max(max, code)

/** Contract 7.25. */
export const createShare = blobEndpoint({
  name: 'shares.create',
  method: 'POST',
  path: '/v1/shares',
  summary: 'Share an object by a link',
  auth: { scope: 'blob:write' },
  body: z.object({
    object: objectField,
    expires_in: withDefault(linkTerms.shareSeconds.default, whole('INVALID_EXPIRES_IN', linkTerms.shareSeconds)),
    max_downloads: optional(whole('INVALID_MAX_DOWNLOADS', linkTerms.shareDownloads)),
    password: optional(characters(linkTerms.sharePasswordCharacters, 'INVALID_PASSWORD')),
  }),
  success: 201,
  response: z.object({ ...link, max_downloads: z.int().nullable(), object_is_public: z.boolean() }),
  errors: [
    ...idempotencyErrors,
    ...ownObjectErrors,
    'INVALID_EXPIRES_IN',
    'INVALID_MAX_DOWNLOADS',
    'INVALID_PASSWORD',
    'UPGRADE_REQUIRED',
    'TOO_MANY_SHARES',
  ],
  async handle(call, { db, config }) {
    const { caller, exchange } = call
    const { object: id, expires_in, max_downloads = null, password } = call.body
    if (password !== undefined) assertOption(caller.planName, 'share-password')
    const object = await ownObject(db, id, caller)
    const passwordHash = password === undefined ? null : await hashPassword(caller.user.id, password)
    // The stored fingerprint of the request must not help to guess the password.
    const secret = deriveKey(config.masterKey, 'share-requests')
    const body = { ...call.body, password: password && signatureOf(secret, password) }
    const share = { object, expiresInSeconds: expires_in, maxDownloads: max_downloads, passwordHash }
    return idempotent({ ...call, body }, 'POST /v1/shares', db, async trx => {
      const created = createdShareView(await insertShare(trx, share), config.urls.files)
      exchange.resource = created.id
      await auditWithin(trx, 'shares.create', { caller }, exchange)
      return created
    })
  },
})

/** Shares that still work, newest first; a key that is limited to prefixes sees only those below them. */
export const listShares = blobEndpoint({
  name: 'shares.list',
  method: 'GET',
  path: '/v1/shares',
  summary: 'List shares',
  auth: { scope: 'blob:read' },
  response: z.object({
    shares: z.array(z.object({ ...link, remaining_downloads: z.int().nullable(), created_at: isoTime })),
  }),
  async handle({ caller }, { db, config }) {
    const visible = (await findShares(db, caller.user.id)).filter(share => isKeyWithin(caller.prefixes, share.key))
    return { shares: visible.map(share => shareView(share, config.urls.files)) }
  },
})

/** The next visit gets 404. */
export const deleteShare = blobEndpoint({
  name: 'shares.delete',
  method: 'DELETE',
  path: '/v1/shares',
  summary: 'Revoke a share',
  auth: { scope: 'blob:write' },
  body: z.object({ id: z.string({ error: 'INVALID_SHARE' }).regex(shareIdPattern, 'INVALID_SHARE') }),
  errors: ['INVALID_SHARE', 'SHARE_NOT_FOUND', 'PREFIX_NOT_ALLOWED'],
  async handle({ caller, body, exchange }, { db }) {
    exchange.resource = body.id
    const share = await findOwnShare(db, caller.user.id, body.id)
    if (!share) throw new CodedError('SHARE_NOT_FOUND')
    assertWithin(caller.prefixes, share.key)
    const record = (trx: Db) => auditWithin(trx, 'shares.delete', { caller }, exchange)
    if (!(await revokeShare(db, share.id, record))) throw new CodedError('SHARE_NOT_FOUND')
  },
})
