import { withTimeout } from '../../lib/async/timeout.ts'
import { ApiError } from '../../policy/errors.ts'
import { databaseTimeouts } from '../../policy/timeouts.ts'

/**
 * Bounds the queries that precede the handling of a request. A database that hangs is DATABASE_UNAVAILABLE after 2.8 s, for all of
 * them together; later results are dropped.
 */
export function withinDeadline<T>(work: Promise<T>): Promise<T> {
  return withTimeout(work, databaseTimeouts.admissionMs, () => new ApiError('DATABASE_UNAVAILABLE', undefined, 2))
}
