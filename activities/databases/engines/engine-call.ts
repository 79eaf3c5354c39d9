import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { unlessAborted, withTimeout } from '../../../lib/async/timeout.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { DumpPrevented } from '../contents.ts'
import { EngineLoads, EngineUnavailable } from '../port.ts'

export interface EngineCall {
  engine: EngineName
  /** Never part of an error, whatever the engine or its driver repeats. */
  secrets: readonly string[]
  /** Of the whole conversation; default 5. */
  seconds?: number
  /** Ends the conversation. */
  signal?: AbortSignal | undefined
}

/** Seconds within which an engine must accept a connection and log us in. */
export const openSeconds = 5

/** After its connection was cut, work has this many seconds to end, with the containers that it has started. */
const endSeconds = 20

/**
 * One conversation with an engine. Rejects with EngineUnavailable when it fails or takes too long, with DumpPrevented or EngineLoads when the
 * work does, and with the signal's reason when that aborts, once the work has ended. `close` ends the connection in every case, must not wait for the
 * engine, and may come twice.
 */
export async function engineCall<T>(
  { engine, secrets, seconds = openSeconds, signal }: EngineCall,
  work: () => Promise<T>,
  close: () => void,
): Promise<T> {
  const talk = work()
  try {
    const answer = withTimeout(talk, seconds * 1000, () => new Error(`no answer within ${seconds} s`))
    return await (signal ? unlessAborted(answer, signal) : answer)
  } catch (error) {
    if (signal?.aborted) {
      close()
      await withTimeout(talk, endSeconds * 1000, () => new Error('it does not end')).catch(
        ignoreError('the signal is the reason'),
      )
      throw signal.reason
    }
    // What these say has no secrets.
    if (error instanceof DumpPrevented || error instanceof EngineLoads) throw error
    const cause = withoutSecrets(error, secrets)
    throw new EngineUnavailable(`The ${engine} engine does not answer: ${cause.message}`, { cause })
  } finally {
    close()
  }
}

/** A new error, because drivers attach what they sent to theirs. */
function withoutSecrets(error: unknown, secrets: readonly string[]): Error & { code?: string } {
  const { message, code } = (error instanceof Error ? error : new Error(String(error))) as Error & { code?: unknown }
  const text = secrets.filter(Boolean).reduce((rest, secret) => rest.replaceAll(secret, '…'), message)
  return Object.assign(new Error(text || 'the connection failed'), typeof code === 'string' && { code })
}
