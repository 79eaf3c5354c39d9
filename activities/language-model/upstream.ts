import type { ChatRequest, Completion, TokenUsage } from '../../policy/ai/chat.ts'

/** One server that answers chat completions. */
export interface Upstream {
  /** Rejects with an `UpstreamFailure`, and with nothing else. */
  complete(request: ChatRequest, options: UpstreamOptions): Promise<Completion>
  /** Ends the connections; calls in progress fail as `unreachable`. */
  close(): Promise<void>
}

export interface UpstreamOptions {
  signal: AbortSignal
  /** Called once, when the first piece of the answer has arrived: no other upstream may answer from then on. */
  onFirstPiece: () => void
}

/**
 * `refused`: the request is wrong (400, 422). `misconfigured`: the operator's settings are (401, 403, 404, a redirect, a wrong address).
 * `busy`: 408, 429 and 5xx. `unreachable`: no connection, or one that was cut before there was a status. `late`: no piece of an answer in
 * time. `broken`: an answer that ends early, says nothing for too long, is too large, or is none. `aborted`: the signal did.
 */
export type UpstreamFailureKind = 'refused' | 'misconfigured' | 'busy' | 'unreachable' | 'late' | 'broken' | 'aborted'

/** Why one upstream gave no answer. Holds no word of the upstream's. */
export class UpstreamFailure extends Error {
  override name = 'UpstreamFailure'

  constructor(
    readonly kind: UpstreamFailureKind,
    readonly details: {
      /** Of the upstream's answer; undefined when there was none. */
      status?: number | undefined
      /** Of the error on the line, as `ECONNREFUSED`. */
      code?: string | undefined
      /** What was generated before; undefined when no piece of an answer has arrived. */
      generated?: TokenUsage | undefined
    } = {},
  ) {
    super(`The upstream gave no answer: ${kind}.`)
  }
}
