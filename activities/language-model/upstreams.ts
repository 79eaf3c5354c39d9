import type { Logger } from 'pino'
import type { Completion } from '../../policy/ai/chat.ts'
import { type LanguageModel, ModelFailure } from './port.ts'
import { type Upstream, UpstreamFailure } from './upstream.ts'
import { type Slot, type SlotOptions, UpstreamSlots } from './upstream-slots.ts'

export type ModelLog = Pick<Logger, 'info' | 'warn' | 'error'>

/**
 * Several upstreams as one model: the first in order of preference that works and has a free slot. One that fails before the first piece
 * of its answer is replaced by the next, each once. Log lines name the request, the upstream's number and figures, never a text.
 */
export function upstreamsModel(upstreams: readonly Upstream[], log: ModelLog, options: SlotOptions): LanguageModel {
  const slots = new UpstreamSlots(upstreams, options)
  /** Ends of the calls in progress. */
  const ends = new Set<() => void>()
  let isClosed = false

  return {
    async complete(request, { account, signal: caller, requestId }) {
      const untried = new Set(slots.stations)
      const waitTime = slots.waitTime()
      const ending = new AbortController()
      const { signal } = ending
      const end = () => ending.abort()
      if (caller.aborted || isClosed) end()
      caller.addEventListener('abort', end, { once: true })
      ends.add(end)
      try {
        for (;;) {
          const slot = await slots.enter(untried, account, waitTime, signal)
          if (!slot) throw withoutSlot()
          untried.delete(slot.station)
          const outcome = await attempt(slot)
          if (!(outcome instanceof UpstreamFailure)) return outcome
          if (isFinal(outcome)) throw modelFailure(outcome)
        }
      } finally {
        caller.removeEventListener('abort', end)
        ends.delete(end)
      }

      function withoutSlot(): ModelFailure {
        if (caller.aborted) return new ModelFailure('aborted', 'The call was aborted.')
        const isSkipped = [...untried].every(({ breaker }) => !breaker.letsThrough(account))
        const reason = untried.size === 0 ? 'all_failed' : isSkipped ? 'all_skipped' : 'no_slot'
        log.warn({ requestId, reason }, 'no language model for a call')
        return new ModelFailure('unavailable', 'No language model could answer.')
      }

      async function attempt({ station, call, release }: Slot): Promise<Completion | UpstreamFailure> {
        const startedAt = performance.now()
        const elapsed = () => Math.round(performance.now() - startedAt)
        let firstPieceMs: number | undefined
        const onFirstPiece = () => {
          firstPieceMs = elapsed()
          call.progress()
        }
        const line = () => ({ requestId, upstream: station.number, firstPieceMs, ms: elapsed() })
        try {
          const completion = await station.upstream.complete(request, { signal, onFirstPiece })
          call.succeed()
          log.info({ ...line(), status: 200, reason: 'answered' }, 'language model call')
          return completion
        } catch (error) {
          const failure = error instanceof UpstreamFailure ? error : new UpstreamFailure('broken')
          report(call, failure)
          const { status, code } = failure.details
          const level = failure.kind === 'misconfigured' ? 'error' : failure.kind === 'aborted' ? 'info' : 'warn'
          log[level]({ ...line(), status, code, reason: failure.kind }, messages[level])
          return failure
        } finally {
          release()
        }
      }

      /** Whether no other upstream may answer: the request is wrong, its caller has left, or an answer has started. */
      function isFinal({ kind, details }: UpstreamFailure): boolean {
        return kind === 'refused' || kind === 'aborted' || details.generated !== undefined || signal.aborted
      }

      function modelFailure({ kind, details: { generated } }: UpstreamFailure): ModelFailure {
        if (kind === 'refused') return new ModelFailure('refused', 'The language model refused the request.')
        if (caller.aborted) return new ModelFailure('aborted', 'The call was aborted.', generated)
        return new ModelFailure('unavailable', 'The language model ended its answer early.', generated)
      }
    },

    async close() {
      isClosed = true
      for (const end of ends) end()
      await Promise.all(upstreams.map(upstream => upstream.close()))
    },
  }
}

const messages = {
  info: 'language model call',
  warn: 'a language model failed',
  error: 'a language model does not accept our requests: check AI_UPSTREAM_URL, AI_UPSTREAM_KEY and AI_UPSTREAM_MODEL',
} as const

/**
 * A status, or an answer that does not begin in time, may be the fault of one account's request, which must not take the upstream from the
 * others; a connection that is refused, cut or silent is nobody's.
 */
function report(call: Slot['call'], { kind, details }: UpstreamFailure): void {
  if (kind === 'refused') call.succeed()
  else if (kind === 'aborted') call.abandon()
  else call.fail(kind === 'late' || details.status !== undefined)
}
