import type { ChatMessage, TokenUsage } from '../../policy/ai/chat.ts'

/** The name under which the toy model is served: it must not be taken for more. */
export const toyModelName = 'toy-smollm2-135m'

/** A message of a conversation, as text. */
export interface Turn {
  role: ChatMessage['role']
  content: string
}

export interface TextRequest {
  turns: readonly Turn[]
  /** Of the answer, from 1. */
  maxTokens: number
  /** 0 to 2; with 0 the same conversation has the same answer. */
  temperature: number
}

export interface GeneratedText {
  /** `length`: the maximum, or the end of the model's context, cut it off. */
  finish: 'stop' | 'length'
  usage: TokenUsage
}

/** A language model in this process. It answers one conversation at a time: who calls it while it generates gets nonsense. */
export interface TextGenerator {
  /**
   * Continues a conversation, and hands over each piece of the answer as it is generated; pieces contain whole characters. Rejects with
   * `PromptTooLong` before the first one, or with the signal's reason once that aborts.
   */
  generate(request: TextRequest, onText: (piece: string) => void, signal: AbortSignal): Promise<GeneratedText>
}

/** The conversation leaves the model no room for an answer. */
export class PromptTooLong extends Error {
  override name = 'PromptTooLong'

  constructor(tokens: number, maxTokens: number) {
    super(`The messages have ${tokens} tokens; the toy model reads ${maxTokens} at most.`)
  }
}
