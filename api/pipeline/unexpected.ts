import { ApiError, type ErrorCode } from '../../policy/errors.ts'
import { toApiError } from '../http/respond.ts'
import type { CoreServices } from './core-services.ts'

/** Does `work`; what nobody expected is logged and said with a code of its own. A database that is away says so itself. */
export async function failingAs<T>(code: ErrorCode, { log }: CoreServices, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (toApiError(thrown).code !== 'INTERNAL_SERVER_ERROR') throw thrown
    log.error({ err: thrown, code }, 'an unexpected failure')
    throw new ApiError(code)
  }
}
