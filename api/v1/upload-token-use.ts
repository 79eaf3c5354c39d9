import { returnUploadTokenUse, useUploadToken } from '../../db/objects/uploads/upload-tokens.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { ApiError } from '../../policy/errors.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'

/** Runs `work` as one use of the caller's upload token, if any; a failure returns the use. Throws UPLOAD_TOKEN_USED. */
export async function withTokenUse<T>({ db }: Services, { uploadToken }: Caller, work: () => Promise<T>): Promise<T> {
  if (!uploadToken) return work()
  if (!(await useUploadToken(db, uploadToken.id))) throw new ApiError('UPLOAD_TOKEN_USED')
  try {
    return await work()
  } catch (error) {
    await returnUploadTokenUse(db, uploadToken.id).catch(ignoreError('the error that led here is thrown'))
    throw error
  }
}
