import { z } from 'zod'
import { s3PairOf } from '../../db/objects/s3-credentials.ts'
import { CodedError } from '../../policy/errors.ts'
import { s3Access, s3Buckets, s3Region, s3Secret } from '../../policy/objects/s3-credentials.ts'
import { isoTime } from '../pipeline/fields.ts'
import { blobEndpoint } from './blob-endpoint.ts'

const text = z.string()

/** Contract 7.42: derived from the calling key, the same each time, and revoked with it. */
export const getS3Credentials = blobEndpoint({
  name: 's3.credentials',
  method: 'GET',
  path: '/v1/s3/credentials',
  summary: 'Show the S3 credentials of the API key',
  auth: { scope: 'blob:read', orScope: 'blob:write' },
  response: z.object({
    access_key_id: text,
    secret_access_key: text,
    endpoint: text,
    region: text,
    buckets: z.array(text),
    access: z.object({ read: z.boolean(), write: z.boolean() }),
    expires_at: isoTime.nullable(),
  }),
  errors: ['API_KEY_REQUIRED', 'INVALID_CREDENTIAL'],
  async handle({ caller }, { db, config }) {
    if (caller.kind !== 'key') throw new CodedError('API_KEY_REQUIRED')
    const { credential_id, credential_expires_at } = caller.user
    const pair = await s3PairOf(db, s3Secret(config.masterKey), credential_id)
    if (!pair) throw new CodedError('INVALID_CREDENTIAL') // revoked since it was authenticated
    return {
      access_key_id: pair.accessKeyId,
      secret_access_key: pair.secretAccessKey,
      endpoint: config.urls.s3,
      region: s3Region,
      buckets: [...s3Buckets],
      access: s3Access(caller.scopes),
      expires_at: credential_expires_at?.toISOString() ?? null,
    }
  },
})
