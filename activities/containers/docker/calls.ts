import { withTimeout } from '../../../lib/async/timeout.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { HostUnreachable } from '../port.ts'

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
 * One call to the engine with its deadline. Rejects with HostUnreachable when no answer comes, else as the engine says.
 * The timeout is there because not every call of the client ends with its signal.
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
    throw named(error)
  }
}

/** The error by the names of the port: no answer and no space have classes of their own. */
export function named(error: unknown): unknown {
  if (error instanceof HostUnreachable) return error
  const { code, message = '' } = error as { code?: string; message?: string }
  if (code !== undefined && unreachable.has(code)) {
    return new HostUnreachable(`The container engine does not answer (${code}).`, { cause: error })
  }
  if (/no space left on device|disk quota exceeded/i.test(message)) {
    return new NoSpaceLeft('The host has no disk space left.', { cause: error })
  }
  return error
}

/** HTTP status of an engine's refusal; undefined when it is none. */
export function status(error: unknown): number | undefined {
  return (error as { statusCode?: number } | undefined)?.statusCode
}

/** For `.catch`: turns these refusals of the engine into `undefined`, passes everything else on. */
export function unless(...statuses: number[]) {
  return (error: unknown): undefined => {
    const found = status(error)
    if (found === undefined || !statuses.includes(found)) throw error
  }
}
