import { z } from 'zod'
import { findUpload, type UploadRow } from '../../../db/objects/uploads/uploads.ts'
import { CodedError } from '../../../policy/errors.ts'
import { assertWithin } from '../../../policy/objects/prefix-limits.ts'
import { chunkedSecret, chunkedTokenForm, readChunkedToken } from '../../../policy/objects/uploads/chunked-tokens.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'

/** The token of an upload that Init returned, in a query or body. */
export const uploadField = z.string({ error: 'INVALID_UPLOAD_TOKEN' }).regex(chunkedTokenForm, 'INVALID_UPLOAD_TOKEN')

/** Codes that `ownUpload` throws. */
export const ownUploadErrors = ['INVALID_UPLOAD_TOKEN', 'UPLOAD_NOT_FOUND', 'PREFIX_NOT_ALLOWED'] as const

/** The id of the caller's upload, open or not, that a token names. Throws INVALID_UPLOAD_TOKEN. */
export function ownUploadId(token: string, { user }: Caller, { config }: Services): string {
  const id = readChunkedToken(chunkedSecret(config.masterKey), user.id, token)
  if (!id) throw new CodedError('INVALID_UPLOAD_TOKEN')
  return id
}

/** The open upload that a token names. An upload token may only continue what it has opened itself, a limited key only what is below its prefixes. */
export async function ownUpload(token: string, caller: Caller, services: Services): Promise<UploadRow> {
  const upload = await findUpload(services.db, ownUploadId(token, caller, services), caller.user.id)
  if (!upload) throw new CodedError('UPLOAD_NOT_FOUND')
  assertMayContinue(upload, caller)
  return upload
}

/** Throws INVALID_UPLOAD_TOKEN and PREFIX_NOT_ALLOWED. */
export function assertMayContinue(upload: Pick<UploadRow, 'key' | 'upload_token_id'>, caller: Caller): void {
  if (caller.uploadToken && caller.uploadToken.id !== upload.upload_token_id)
    throw new CodedError('INVALID_UPLOAD_TOKEN')
  assertWithin(caller.prefixes, upload.key)
}
