import { withTimeout } from '../../lib/async/timeout.ts'
import { CodedError } from '../../policy/errors.ts'
import { databaseTimeouts } from '../../policy/timeouts.ts'

/**
 * Bounds the queries that precede the handling of a request, 2.8 s from `since`, by `performance.now()`. A database that hangs is
 * DATABASE_UNAVAILABLE then, for all of them together; later results are dropped.
 */
export function withinDeadline<T>(work: Promise<T>, since = performance.now()): Promise<T> {
  const left = since + databaseTimeouts.admissionMs - performance.now()
  return withTimeout(work, Math.max(0, left), () => new CodedError('DATABASE_UNAVAILABLE', undefined, 2))
}
