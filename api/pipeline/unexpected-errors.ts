import { CodedError, type ErrorCode } from '../../policy/errors.ts'
import { toCodedError } from '../http/respond.ts'
import type { CoreServices } from './core-services.ts'

/** Runs `work`; an unexpected error is logged and becomes `code`. An unavailable database keeps its own code. */
export async function mapUnexpectedError<T>(
  code: ErrorCode,
  { log }: CoreServices,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (toCodedError(thrown).code !== 'INTERNAL_SERVER_ERROR') throw thrown
    log.error({ err: thrown, code }, 'unexpected error')
    throw new CodedError(code)
  }
}
