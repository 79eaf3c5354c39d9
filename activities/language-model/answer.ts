import { randomBytes } from '../../lib/random-bytes.ts'
import { storable } from '../../lib/storable-text.ts'
import type { ChatRequest, Completion, TokenUsage, ToolCall } from '../../policy/ai/chat.ts'
import { chatLimits } from '../../policy/ai/chat-limits.ts'
import { estimateText, estimateTokens } from '../../policy/ai/tokens.ts'
import { answerCaps, figuresBelieved } from '../../policy/ai/upstreams.ts'

/** Thrown for what is no answer. Its message names the rule and repeats nothing. */
export class NoAnswer extends Error {}

type Fields = Record<string, unknown>

/** An answer that arrives in pieces, as `chat.completion.chunk`, or as one `chat.completion`. */
export class Answer {
  #content = ''
  /** What some models think before they answer: paid for, and not part of the answer. */
  #reasoning = ''
  readonly #calls = new Map<unknown, ToolCall>()
  #finish: string | null = null
  #usage: Partial<TokenUsage> = {}
  #bytes = 0
  readonly #request: ChatRequest

  /** `request` is that which it answers. */
  constructor(request: ChatRequest) {
    this.#request = request
  }

  /** Whether a piece of the answer has arrived: text, a call of a tool, or a thought. */
  get hasBegun(): boolean {
    return this.#content !== '' || this.#reasoning !== '' || this.#calls.size > 0
  }

  /** Whether the model has said why it ended; only its usage may follow. */
  get isFinished(): boolean {
    return this.#finish !== null
  }

  /** Takes one object of the upstream's. Throws a `NoAnswer` for an error or a wrong form, and past the size of answers. */
  take(data: unknown): void {
    const { choices, usage, error } = fieldsOf(data) ?? {}
    if (error != null || (!Array.isArray(choices) && usage == null))
      throw new NoAnswer('an error, or not of the form of answers')
    this.#takeUsage(fieldsOf(usage))
    const choice = fieldsOf(Array.isArray(choices) ? choices.find(each => (fieldsOf(each)?.index ?? 0) === 0) : null)
    if (!choice) return
    const piece = fieldsOf(choice.delta) ?? fieldsOf(choice.message) ?? {}
    this.#content += this.#counted(textOf(piece.content))
    this.#reasoning += this.#counted(textOf(piece.reasoning_content ?? piece.reasoning))
    if (Array.isArray(piece.tool_calls)) for (const [n, call] of piece.tool_calls.entries()) this.#takeCall(call, n)
    if (typeof choice.finish_reason === 'string' && choice.finish_reason) this.#finish = choice.finish_reason
  }

  /** The answer as callers get it. */
  completion(): Completion {
    const ids = new Set<string>()
    const toolCalls = [...this.#calls.values()]
      .filter(call => call.function.name !== '')
      .map(({ id, function: { name, arguments: text } }): ToolCall => {
        const own = id === '' || id.length > 256 || ids.has(id) ? newId() : storable(id)
        ids.add(own)
        return { id: own, type: 'function', function: { name: storable(name), arguments: storable(text) || '{}' } }
      })
    return {
      content: this.#content === '' && toolCalls.length > 0 ? null : storable(this.#content),
      toolCalls,
      finish: this.#finish === 'length' ? 'length' : toolCalls.length > 0 ? 'tool_calls' : 'stop',
      usage: this.usage(),
    }
  }

  /** Tokens so far: the upstream's figures, and the estimate for those that it did not give, gave as 0, or that cannot be true. */
  usage(): TokenUsage {
    const { messages, tools } = this.#request
    const calls = [...this.#calls.values()].map(call => call.function.name + call.function.arguments)
    const text = this.#content + this.#reasoning + calls.join('')
    const prompt = estimateTokens(messages, tools)
    return {
      prompt: plausible(this.#usage.prompt, prompt),
      completion: plausible(this.#usage.completion, estimateText(text)),
    }
  }

  #takeUsage(usage: Fields | null): void {
    if (!usage) return
    const { prompt_tokens: prompt, completion_tokens: completion } = usage
    if (isCount(prompt)) this.#usage.prompt = prompt
    if (isCount(completion)) this.#usage.completion = completion
  }

  #takeCall(data: unknown, position: number): void {
    const { index, id, function: called } = fieldsOf(data) ?? {}
    const { name, arguments: text } = fieldsOf(called) ?? {}
    const call = this.#callAt(index ?? position, textOf(id), textOf(name))
    this.#counted(textOf(id) + textOf(name))
    if (textOf(id) && !call.id) call.id = textOf(id)
    if (textOf(name)) call.function.name = textOf(name)
    // Some servers have parsed the arguments.
    if (fieldsOf(text)) call.function.arguments = this.#counted(JSON.stringify(text))
    else call.function.arguments += this.#counted(textOf(text))
  }

  /** The call that a piece belongs to. Some servers number all calls 0: another id with a name begins another call. */
  #callAt(index: unknown, id: string, name: string): ToolCall {
    const present = this.#calls.get(index)
    const isOther = present && id && name && present.id && present.id !== id
    if (present && !isOther) return present
    if (isOther) this.#calls.set({}, present)
    const call: ToolCall = { id: '', type: 'function', function: { name: '', arguments: '' } }
    this.#calls.delete(index)
    this.#calls.set(index, call)
    if (this.#calls.size > chatLimits.toolCalls) throw new NoAnswer('too many calls of tools')
    return call
  }

  /** An upstream that ignores the requested length is cut off far past it. */
  get #maxBytes(): number {
    return Math.min(answerCaps.answer, answerCaps.floor + answerCaps.perToken * this.#request.maxTokens)
  }

  /** The same text, once it is counted. */
  #counted(text: string): string {
    this.#bytes += Buffer.byteLength(text)
    if (this.#bytes > this.#maxBytes) throw new NoAnswer('too large')
    return text
  }
}

const fieldsOf = (data: unknown): Fields | null =>
  typeof data === 'object' && data !== null && !Array.isArray(data) ? (data as Fields) : null

/** A text, or the texts of parts; anything else is none. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map(part => fieldsOf(part)?.text)
    .filter(text => typeof text === 'string')
    .join('')
}

/** A figure of an upstream, unless it is far beyond the estimate: a wrong one would close accounts and the platform for the day. */
function plausible(figure: number | undefined, estimate: number): number {
  return figure && figure <= figuresBelieved.floor + figuresBelieved.times * estimate ? figure : estimate
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

const newId = (): string => `call_${randomBytes(12).toString('hex')}`
