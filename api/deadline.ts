import { ApiError } from '../policy/errors.ts'

/** The outcome of `work`, or DATABASE_UNAVAILABLE after `milliseconds`; what comes later is dropped. */
export function withinDeadline<T>(work: Promise<T>, milliseconds: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new ApiError('DATABASE_UNAVAILABLE', undefined, 2)), milliseconds)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
