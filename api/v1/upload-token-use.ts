import { CommitInDoubt } from '../../db/commits-in-doubt.ts'
import { isUnavailable, isWithoutEffect } from '../../db/database.ts'
import { returnUploadTokenUse, useUploadToken } from '../../db/objects/uploads/upload-tokens.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { CodedError } from '../../policy/errors.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'

/**
 * Runs `work` as one use of the caller's upload token, if any; a failure returns the use, unless the work may have been committed. Throws
 * UPLOAD_TOKEN_USED.
 */
export async function withTokenUse<T>({ db }: Services, { uploadToken }: Caller, work: () => Promise<T>): Promise<T> {
  if (!uploadToken) return work()
  if (!(await useUploadToken(db, uploadToken.id))) throw new CodedError('UPLOAD_TOKEN_USED')
  try {
    return await work()
  } catch (error) {
    if (!mayBeCommitted(error))
      await returnUploadTokenUse(db, uploadToken.id).catch(ignoreError('the error that led here is thrown'))
    throw error
  }
}

/** One use too few is harmless; one too many is not what the token allows. */
const mayBeCommitted = (error: unknown): boolean =>
  error instanceof CommitInDoubt || (isUnavailable(error) && !isWithoutEffect(error))
