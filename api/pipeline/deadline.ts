import { ApiError } from '../../policy/errors.ts'
import { databasePatience } from '../../policy/patience.ts'

/**
 * The outcome of what a request asks the database before it is acted upon. A database that hangs is DATABASE_UNAVAILABLE after 2.8 s,
 * however many statements these are; what comes later is dropped.
 */
export function withinDeadline<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const refuse = () => reject(new ApiError('DATABASE_UNAVAILABLE', undefined, 2))
    const timer = setTimeout(refuse, databasePatience.admissionMs)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
