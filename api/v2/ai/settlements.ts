import { setTimeout as sleep } from 'node:timers/promises'
import { type NewCall, settleCall } from '../../../db/ai/ai-calls.ts'
import type { Db } from '../../../db/database.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { withTimeout } from '../../../lib/async/timeout.ts'
import type { TokenUsage } from '../../../policy/ai/chat.ts'
import { settling } from '../../../policy/ai/chat-limits.ts'
import type { Log } from '../../pipeline/core-services.ts'

type CallName = Pick<NewCall, 'id' | 'userId'>

/** Settles calls, once each, also while Postgres is away for a while. */
export class Settlements {
  readonly #db: Db
  readonly #log: Log
  readonly #ending = new AbortController()

  constructor({ db, log }: { db: Db; log: Log }) {
    this.#db = db
    this.#log = log
  }

  /**
   * Frees the slot, and charges what was generated, before the answer is sent, so that the caller's next request finds the slot free.
   * After 5 s the answer goes first, and the attempts go on for 95 s after the end of the call. Never rejects.
   */
  async settle(call: CallName, usage: TokenUsage | undefined, requestId?: string): Promise<void> {
    const startedAt = performance.now()
    if (await this.#tryUntil(startedAt + settling.beforeAnswerMs, call, usage)) return
    void this.#tryUntil(startedAt + settling.withinMs, call, usage).then(settled => {
      const fields = { requestId, call: call.id, ...usage }
      if (!settled) this.#log.error(fields, 'a call of the AI gateway could not be settled: it is not charged')
    })
  }

  /** Ends the attempts that go on. */
  end(): void {
    this.#ending.abort()
  }

  async #tryUntil(until: number, call: CallName, usage: TokenUsage | undefined): Promise<boolean> {
    const left = () => until - performance.now()
    for (let pauseMs: number = settling.pauseMs; left() > 0; pauseMs = Math.min(2 * pauseMs, settling.maxPauseMs)) {
      try {
        await withTimeout(settleCall(this.#db, call, usage), left(), () => new Error('Postgres did not answer in time'))
        return true
      } catch {
        // It removes the row of the call: another attempt after a lost answer charges nothing.
        const pause = Math.min(pauseMs, Math.max(0, left()))
        await sleep(pause, undefined, { signal: this.#ending.signal }).catch(ignoreError('the process ends'))
        if (this.#ending.signal.aborted) return false
      }
    }
    return false
  }
}
