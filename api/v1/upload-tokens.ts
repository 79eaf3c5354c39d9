import { z } from 'zod'
import { createUploadToken as insertUploadToken } from '../../db/objects/uploads/upload-tokens.ts'
import { GiB } from '../../lib/bytes.ts'
import { credentialHash } from '../../policy/accounts/credentials.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { assertOption, assertPaid } from '../../policy/objects/blob-options.ts'
import { durationSeconds, shortExpirySeconds } from '../../policy/objects/object-expiry.ts'
import { isBlockedType } from '../../policy/objects/object-types.ts'
import { assertWithin } from '../../policy/objects/prefix-limits.ts'
import { expireField, metadataField, nameField, prefixField } from '../../policy/objects/uploads/upload-fields.ts'
import {
  earlierUploadToken,
  pinsBytes,
  type UploadPins,
  uploadToken,
  uploadTokenSecret,
} from '../../policy/objects/uploads/upload-tokens.ts'
import { linkTerms } from '../../policy/request-caps.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import { isoTime, optional, withDefault } from '../pipeline/fields.ts'
import { idempotencyErrors, idempotent } from '../pipeline/idempotent.ts'
import { blobEndpoint } from './blob-endpoint.ts'

const pins = z.object({
  name: optional(nameField),
  prefix: optional(prefixField),
  private: optional(z.boolean({ error: 'INVALID_OBJECT_PRIVATE' })),
  security_hash: optional(z.boolean({ error: 'INVALID_OBJECT_SECURITY_HASH' })),
  expire: optional(expireField),
  max_size: optional(
    z
      .int()
      .min(1)
      .max(10 * GiB),
  ),
  allowed_extensions: optional(
    z
      .array(z.string().regex(/^[a-z0-9]{1,16}(\.[a-z0-9]{1,16})?$/, 'INVALID_FILE_TYPE'))
      .min(1)
      .max(20),
  ),
  metadata: optional(metadataField),
}) satisfies z.ZodType<UploadPins>

/** Contract 7.38: a customer's server creates these, so that browsers can upload without its key. */
export const createUploadToken = blobEndpoint({
  name: 'upload-tokens.create',
  method: 'POST',
  path: '/v1/upload-tokens',
  summary: 'Create an upload token',
  auth: { scope: 'blob:write' },
  body: pins.extend({
    expires_in: withDefault(
      linkTerms.tokenSeconds.default,
      z
        .int({ error: 'INVALID_EXPIRES_IN' })
        .min(linkTerms.tokenSeconds.min, 'INVALID_EXPIRES_IN')
        .max(linkTerms.tokenSeconds.max, 'INVALID_EXPIRES_IN'),
    ),
    max_uses: withDefault(
      linkTerms.tokenUses.default,
      z.int().min(linkTerms.tokenUses.min).max(linkTerms.tokenUses.max),
    ),
  }),
  response: z.object({ token: z.string(), expires_at: isoTime, max_uses: z.int() }),
  errors: [
    ...idempotencyErrors,
    'INVALID_OBJECT_NAME',
    'INVALID_OBJECT_PREFIX',
    'INVALID_OBJECT_PRIVATE',
    'INVALID_OBJECT_SECURITY_HASH',
    'INVALID_OBJECT_EXPIRE',
    'INVALID_OBJECT_METADATA',
    'INVALID_FILE_TYPE',
    'BLOCKED_FILE_TYPE',
    'INVALID_EXPIRES_IN',
    'UPLOAD_TOKEN_TOO_LARGE',
    'PERMISSION_DENIED',
    'UPGRADE_REQUIRED',
    'PREFIX_NOT_ALLOWED',
  ],
  async handle(call, { db, config }) {
    const { expires_in, max_uses, ...pins } = call.body
    assertMayPin(pins, call.caller)
    const secret = uploadTokenSecret(config.masterKey)
    const created = await idempotent(call, 'POST /v1/upload-tokens', db, async trx => {
      const id = newId()
      const { user } = call.caller
      const expiresAt = await insertUploadToken(trx, {
        id,
        ownerId: user.id,
        credentialId: user.credential_id,
        hash: credentialHash(uploadToken(secret, id)),
        pins,
        lifeSeconds: expires_in,
        maxUses: max_uses,
      })
      // The answer for repeated requests is stored without the token, which is as powerful as a key until it expires.
      return { id, checked: true, expires_at: expiresAt.toISOString(), max_uses }
    })
    const { id, checked, ...answer } = created
    // A repeated answer may come from an earlier version.
    const text = checked ? uploadToken : earlierUploadToken
    return { token: text(secret, id), ...answer }
  },
})

/** Throws the code with which an upload with these pins would be refused. A prefix that is not pinned is checked at the upload. */
function assertMayPin(pins: UploadPins, { planName, prefixes }: Caller): void {
  assertPaid(planName)
  if (Buffer.byteLength(JSON.stringify(pins)) > pinsBytes) throw new CodedError('UPLOAD_TOKEN_TOO_LARGE')
  if (pins.allowed_extensions?.every(isBlockedType)) throw new CodedError('BLOCKED_FILE_TYPE')
  if (pins.prefix !== undefined) assertWithin(prefixes, pins.prefix && `${pins.prefix}/`)
  if (pins.expire !== undefined && (durationSeconds(pins.expire) ?? 0) < shortExpirySeconds)
    assertOption(planName, 'short-expiry')
  if (pins.metadata && Object.keys(pins.metadata).length > 0) assertOption(planName, 'metadata')
}
