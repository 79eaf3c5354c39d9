import { withTimeout } from '../../lib/async/timeout.ts'
import { ApiError } from '../../policy/errors.ts'
import { databasePatience } from '../../policy/patience.ts'

/**
 * The outcome of what a request asks the database before it is acted upon. A database that hangs is DATABASE_UNAVAILABLE after 2.8 s,
 * however many statements these are; what comes later is dropped.
 */
export function withinDeadline<T>(work: Promise<T>): Promise<T> {
  return withTimeout(work, databasePatience.admissionMs, () => new ApiError('DATABASE_UNAVAILABLE', undefined, 2))
}
