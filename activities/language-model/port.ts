import type { ChatRequest, Completion } from '../../policy/ai/chat.ts'

export { ModelFailure } from '../../policy/ai/model-failure.ts'

/**
 * What answers chat completions. The signal ends the work at the model too: nothing is generated for a caller that has disconnected.
 */
export interface LanguageModel {
  /** Rejects with a `ModelFailure`, and with nothing else. */
  complete(request: ChatRequest, options: CompletionOptions): Promise<Completion>
  /** Ends the connections; calls in progress reject as `unavailable`. */
  close(): Promise<void>
}

export interface CompletionOptions {
  /** Whom the call is for: models that are busy serve accounts alternately. */
  account: string
  /** Aborts when the caller disconnects, or when its time is over. */
  signal: AbortSignal
  /** For log lines, so that an operator finds the call of a complaint. */
  requestId: string
}

/**
 * Counts the tokens of a prompt as its model does. Resolves to null when that is unknown or takes too long: the estimate counts then
 * (policy/ai/tokens.ts). Never rejects.
 */
export type CountTokens = (
  prompt: Pick<ChatRequest, 'messages' | 'tools'>,
  signal: AbortSignal,
) => Promise<number | null>
