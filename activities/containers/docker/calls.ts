import { withTimeout } from '../../../lib/async/timeout.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { HostUnreachable, PortTaken } from '../port.ts'

/** Seconds after which an engine that does not answer counts as unreachable. */
export const engineSeconds = 10

const unreachable = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EACCES',
  'EPIPE',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ETIMEDOUT',
])

/**
 * One call to the engine with its deadline. Rejects with HostUnreachable when no answer comes, otherwise with the engine's error.
 * The timeout exists because not every call of the client ends with its signal.
 */
export async function call<T>(send: (signal: AbortSignal) => Promise<T>, seconds = engineSeconds): Promise<T> {
  const late = new AbortController()
  const giveUp = () => {
    late.abort()
    return new HostUnreachable(`The container engine gave no answer within ${seconds} s.`)
  }
  try {
    return await withTimeout(send(late.signal), seconds * 1000, giveUp)
  } catch (error) {
    throw toPortError(error)
  }
}

/** Maps errors to those of the port: no answer, no space and a taken port have their own classes. */
export function toPortError(error: unknown): unknown {
  if (error instanceof HostUnreachable) return error
  const { code, message = '' } = error as { code?: string; message?: string }
  if (code !== undefined && unreachable.has(code)) {
    return new HostUnreachable(`The container engine does not answer (${code}).`, { cause: error })
  }
  if (/no space left on device|disk quota exceeded/i.test(message)) {
    return new NoSpaceLeft('The host has no disk space left.', { cause: error })
  }
  // By a container, or by another program.
  if (/port is already allocated|\b(bind|port)\b.*: address already in use/.test(message)) {
    return new PortTaken('The port on the host is in use.', { cause: error })
  }
  return error
}

/** Status with which an engine refuses to read the log of a container that has none. */
export const noLog = 501

/** HTTP status of an engine's refusal; undefined for other errors. */
export function status(error: unknown): number | undefined {
  return (error as { statusCode?: number } | undefined)?.statusCode
}

/** For `.catch`: turns refusals with these statuses into `undefined`, rethrows everything else. */
export function unless(...statuses: number[]) {
  return (error: unknown): undefined => {
    const refusal = status(error)
    if (refusal === undefined || !statuses.includes(refusal)) throw error
  }
}
