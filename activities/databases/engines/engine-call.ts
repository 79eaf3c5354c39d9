import { withTimeout } from '../../../lib/async/timeout.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { EngineUnavailable } from '../port.ts'

export interface EngineCall {
  engine: EngineName
  /** Never part of an error, whatever the engine or its driver repeats. */
  secrets: readonly string[]
  /** Of the whole conversation; default 5. */
  seconds?: number
}

/** Seconds within which an engine must accept a connection and log us in. */
export const openSeconds = 5

/**
 * One conversation with an engine. Rejects with EngineUnavailable when it fails or takes too long; `close` ends the connection in every
 * case, and must not wait for the engine.
 */
export async function engineCall<T>(
  { engine, secrets, seconds = openSeconds }: EngineCall,
  work: () => Promise<T>,
  close: () => void,
): Promise<T> {
  try {
    return await withTimeout(work(), seconds * 1000, () => new Error(`no answer within ${seconds} s`))
  } catch (error) {
    const cause = withoutSecrets(error, secrets)
    throw new EngineUnavailable(`The ${engine} engine does not answer: ${cause.message}`, { cause })
  } finally {
    close()
  }
}

/** A new error, because drivers attach what they sent to theirs. */
function withoutSecrets(error: unknown, secrets: readonly string[]): Error & { code?: string } {
  const { message, code } = (error instanceof Error ? error : new Error(String(error))) as Error & { code?: unknown }
  const text = secrets.filter(Boolean).reduce((kept, secret) => kept.replaceAll(secret, '…'), message)
  return Object.assign(new Error(text || 'the connection failed'), typeof code === 'string' && { code })
}
