/**
 * The longest `Retry-After` that clients of chat completions wait for, in seconds. For a longer one they try again immediately, several
 * times, unless a header forbids it.
 */
export const maxRetrySeconds = 60

/** Kinds of failures that clients of chat completions tell apart, by HTTP status (contract 13.8). */
export const aiFailureTypes = [
  'invalid_request_error',
  'authentication_error',
  'rate_limit_error',
  'server_error',
] as const

/** The body of a refusal on the AI wire. `code` as it is shown. */
export function aiFailure(code: string, status: number, message: string): object {
  return { error: { message, type: typeOf(status), code } }
}

function typeOf(status: number): (typeof aiFailureTypes)[number] {
  if (status >= 500) return 'server_error'
  if (status === 429) return 'rate_limit_error'
  return status === 401 || status === 403 ? 'authentication_error' : 'invalid_request_error'
}
