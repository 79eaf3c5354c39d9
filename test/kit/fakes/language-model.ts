import { type CompletionOptions, type LanguageModel, ModelFailure } from '../../../activities/language-model/port.ts'
import type { ChatRequest, Completion, ToolCall } from '../../../policy/ai/chat.ts'

/** What the fake does with one request; without anything it answers "Hello!". */
export type FakeAnswer =
  | { text?: string; toolCalls?: readonly ToolCall[]; finish?: Completion['finish']; usage?: Completion['usage'] }
  | { fails: 'refused' | 'unavailable'; generated?: Completion['usage'] }
  /** The first piece arrives, and then nothing until the signal aborts. */
  | { hangsAfter: Completion['usage'] }

/** A model that answers what a test says, in the order of the requests. */
export class FakeModel implements LanguageModel {
  readonly requests: ChatRequest[] = []
  readonly accounts: string[] = []
  readonly #next: FakeAnswer[] = []
  readonly #ends = new Set<() => void>()
  #isClosed = false

  next(...answers: FakeAnswer[]): void {
    this.#next.push(...answers)
  }

  async complete(request: ChatRequest, { signal, account }: CompletionOptions): Promise<Completion> {
    if (signal.aborted) throw new ModelFailure('aborted', 'The call was aborted.')
    if (this.#isClosed) throw new ModelFailure('unavailable', 'No language model could answer.')
    this.requests.push(structuredClone(request))
    this.accounts.push(account)
    const answer = this.#next.shift() ?? {}
    if ('fails' in answer) throw new ModelFailure(answer.fails, 'The fake fails.', answer.generated)
    if ('hangsAfter' in answer) return this.#hang(signal, answer.hangsAfter)
    const { text, toolCalls = [], finish, usage = { prompt: 9, completion: 3 } } = answer
    return {
      content: text ?? (toolCalls.length > 0 ? null : 'Hello!'),
      toolCalls: [...toolCalls],
      finish: finish ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
      usage,
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const end of this.#ends) end()
  }

  #hang(signal: AbortSignal, generated: Completion['usage']): Promise<never> {
    return new Promise((_, reject) => {
      const end = () => reject(new ModelFailure('unavailable', 'The language model ended its answer early.', generated))
      this.#ends.add(end)
      const abort = () => reject(new ModelFailure('aborted', 'The call was aborted.', generated))
      signal.addEventListener('abort', abort, { once: true })
    })
  }
}
