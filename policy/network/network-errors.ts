import { domainErrors } from '../domains/domain-errors.ts'

/** Codes of the network of applications, with their HTTP statuses and messages for people; a part of `managementErrors`. */
export const networkErrors = {
  ...domainErrors,
  INVALID_TIME_RANGE: [
    400,
    'start and end must be ISO 8601 times, start before end and not in the future, at most 7 days apart.',
  ],
  INVALID_FILTER: [400, 'A filter is malformed or too long.'],
  UNABLE_TO_FETCH_ANALYTICS: [500, 'The requests of the application could not be read.'],
  UNABLE_TO_FETCH_ERRORS: [500, 'The errors of the application could not be read.'],
  UNABLE_TO_FETCH_PERFORMANCE: [500, 'The latencies of the application could not be read.'],
  ANALYTICS_BUSY: [503, 'Analytics are busy. Try again in a moment.'],
} as const satisfies Record<string, readonly [status: number, message: string]>
