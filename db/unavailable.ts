import { CodedError } from '../policy/errors.ts'

/** The five-character SQLSTATE of a Postgres error, or an empty text. */
export function sqlState(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

/** A transaction waited too long behind others of its account: it did not begin. The database is as available as before. */
export class NoTurn extends CodedError {
  override name = 'NoTurn'

  constructor() {
    super('KEEP_CALM', undefined, 2)
  }
}

/**
 * True when Postgres gave no answer: it is down or starting, the pool is full, the connection was cut, or a timeout ended the statement or
 * its transaction.
 */
export function isUnavailable(error: unknown): boolean {
  const state = sqlState(error)
  if (
    /^(08|57P|53|57014|25P03)/.test(state) ||
    ['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'ENOENT'].includes(state)
  )
    return true
  const text = error instanceof Error ? `${error.name} ${error.message}` : ''
  return /KnexTimeoutError|Connection terminated|Query read timeout|timeout exceeded when trying to connect|Connection ended|is not queryable/i.test(
    text,
  )
}

/** True when a statement took too long, which may be because of the row that it waits for alone: others are served. */
export const isStatementTimeout = (error: unknown): boolean => sqlState(error) === '57014'

/** True when Postgres gave no answer to anyone: as `isUnavailable`, without statements that took too long. */
export const isAway = (error: unknown): boolean => isUnavailable(error) && !isStatementTimeout(error)

/** True when an error proves that the statement changed nothing: Postgres refused it, was not reached, or it was not sent. */
export function isWithoutEffect(error: unknown): boolean {
  const { severity, name, code } = error as { severity?: unknown; name?: unknown; code?: unknown }
  // A connection that is terminated (FATAL) may have committed before.
  return (
    severity === 'ERROR' ||
    name === 'KnexTimeoutError' ||
    name === 'NotBegun' ||
    name === 'NoTurn' ||
    code === 'ECONNREFUSED' ||
    code === 'ENOENT'
  )
}
