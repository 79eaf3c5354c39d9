import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreError } from './ignore-error.ts'

/** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal && { signal }).catch(ignoreError('the signal ends the pause'))
}

/** Ends pauses of a loop early: a ring during a round skips the pause after it. */
export class Bell {
  #pause = new AbortController()

  readonly ring = (): void => this.#pause.abort()

  /** Forgets earlier rings; the signal aborts at the next one. */
  listen(): AbortSignal {
    if (this.#pause.signal.aborted) this.#pause = new AbortController()
    return this.#pause.signal
  }
}

export interface LoopOptions {
  signal: AbortSignal
  /** Pause after each round, in milliseconds; may be computed from the outcome of the round. */
  everyMs: number | ((round: { tookMs: number; failed: boolean }) => number)
  /** Receives the error of a round; the loop continues. */
  onError: (error: unknown) => void
  /** Ends pauses early. */
  bell?: Bell
  /** Delay between a pause and the next round, in milliseconds: rings come in bursts, and one round serves them all. */
  gatherMs?: number
}

/** Repeats work until the signal aborts, one round at a time. Resolves when the last round has ended; never rejects. */
export async function loop(
  work: () => Promise<unknown>,
  { signal, everyMs, onError, bell, gatherMs = 0 }: LoopOptions,
): Promise<void> {
  if (bell) signal.addEventListener('abort', bell.ring, { once: true })
  while (!signal.aborted) {
    const startedAt = performance.now()
    const endPause = bell?.listen() ?? signal
    let failed = false
    try {
      await work()
    } catch (error) {
      failed = true
      onError(error)
    }
    const tookMs = performance.now() - startedAt
    await pause(typeof everyMs === 'number' ? everyMs : everyMs({ tookMs, failed }), endPause)
    if (gatherMs > 0) await pause(gatherMs, signal)
  }
  if (bell) signal.removeEventListener('abort', bell.ring)
}
