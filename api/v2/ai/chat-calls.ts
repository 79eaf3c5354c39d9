import type { CountTokens, LanguageModel } from '../../../activities/language-model/port.ts'
import { admitCall, type CallAdmission, type CallRefusal, countAndAdmitCall } from '../../../db/ai/ai-calls.ts'
import type { Db } from '../../../db/database.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { maxRetrySeconds } from '../../../policy/ai/ai-refusal.ts'
import type { ChatRequest, Completion, TokenUsage } from '../../../policy/ai/chat.ts'
import { chatLimits, tokenizing } from '../../../policy/ai/chat-limits.ts'
import { ModelFailure } from '../../../policy/ai/model-failure.ts'
import { estimateTokens } from '../../../policy/ai/tokens.ts'
import { tokenizeMs } from '../../../policy/ai/upstreams.ts'
import { offersSearch, searchTokens } from '../../../policy/ai/web-search-limits.ts'
import { CodedError } from '../../../policy/errors.ts'
import { newId } from '../../../policy/ids.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Log } from '../../pipeline/core-services.ts'
import { withinDeadline } from '../../pipeline/deadline.ts'
import type { Counting } from '../../pipeline/limiter.ts'
import { Settlements } from './settlements.ts'

export interface ChatCallsOptions {
  db: Db
  log: Log
  /** Null: none is configured. */
  model: LanguageModel | null
  /** Null: prompts are estimated. */
  countTokens: CountTokens | null
  /** Whether the model may search the web. */
  searches: boolean
  /** Tokens per UTC day of all accounts together; null = no limit. */
  dailyTokens: number | null
  /** From the arrival of a request until its answer; default: the platform's. */
  seconds?: number
}

interface Question {
  caller: Caller
  exchange: Exchange
  request: ChatRequest
  counting: Counting
}

/** A call with its slot, and what its model is sent: answer and search as the budgets allow. */
interface Admitted {
  id: string
  request: ChatRequest
}

/** The key by which a caller's usage is counted; null for a session. */
export const keyOf = ({ kind, user }: Caller): string | null => (kind === 'key' ? user.credential_id : null)

/** Seconds until a retry: no model is configured; this process is shutting down; the same answer would take too long again. */
const retrySeconds = { notConfigured: 300, ending: 1, tooLong: maxRetrySeconds + 1 } as const

/** The calls of one process that models are answering. Each holds a slot in Postgres from its admission until it is settled. */
export class ChatCalls {
  readonly #options: ChatCallsOptions
  readonly #settlements: Settlements
  /** An account has its prompts counted one at a time, so that it delays no other; those that wait too long are estimated. */
  readonly #tokenizing = new FairSlots(tokenizing)
  readonly #running = new Map<AbortController, Promise<unknown>>()
  #isEnding = false

  constructor(options: ChatCallsOptions) {
    this.#options = options
    this.#settlements = new Settlements(options)
  }

  /**
   * The model's answer to a conversation. Throws CONTEXT_LENGTH_EXCEEDED, the refusals of `admitCall`, INVALID_REQUEST when the model
   * refuses the request, and SERVER_OVERLOADED when no model answers in time.
   */
  async answer(question: Question): Promise<Completion> {
    if (this.#isEnding) throw this.#unanswered(false)
    const ending = new AbortController()
    const answer = this.#answer(question, ending)
    this.#running.set(ending, answer)
    return answer.finally(() => this.#running.delete(ending))
  }

  async #answer(question: Question, ending: AbortController): Promise<Completion> {
    const { caller, exchange } = question
    const { seconds = chatLimits.seconds, model } = this.#options
    let isOver = false
    const end = () => ending.abort()
    const endLate = () => {
      isOver = true
      end()
    }
    const left = exchange.startedAt + seconds * 1000 - performance.now()
    const timer = setTimeout(endLate, left)
    exchange.signal.addEventListener('abort', end, { once: true })
    // A timer that is due already would let the model be called first.
    if (left <= 0) endLate()
    if (exchange.signal.aborted) end()
    try {
      const promptTokens = await this.#promptTokens(question, ending.signal)
      const { aiContextTokens } = caller.plan
      if (promptTokens > aiContextTokens)
        throw new CodedError(
          'CONTEXT_LENGTH_EXCEEDED',
          `The messages and tools have about ${promptTokens} tokens; your plan allows ${aiContextTokens}.`,
        )
      if (!model)
        throw new CodedError('SERVER_OVERLOADED', 'This platform has no language model.', retrySeconds.notConfigured)
      return await this.#call(model, question, promptTokens, { signal: ending.signal, isOver: () => isOver })
    } finally {
      clearTimeout(timer)
      exchange.signal.removeEventListener('abort', end)
    }
  }

  /** Waits for the calls in progress; after `graceSeconds` they are cut, and their callers get a retryable 503. Each is settled. */
  async end(graceSeconds: number): Promise<void> {
    const cut = setTimeout(() => {
      this.#isEnding = true
      for (const ending of this.#running.keys()) ending.abort()
    }, graceSeconds * 1000)
    while (this.#running.size > 0) await Promise.allSettled(this.#running.values())
    clearTimeout(cut)
    this.#isEnding = true
    this.#settlements.end()
    await this.#options.model?.close()
  }

  /** The exact number where it can be had, and may matter. */
  async #promptTokens({ caller, request, counting }: Question, signal: AbortSignal): Promise<number> {
    const { countTokens } = this.#options
    const estimate = estimateTokens(request.messages, request.tools)
    if (!countTokens || estimate > tokenizing.windows * caller.plan.aiContextTokens) return estimate
    await withinDeadline(counting.count()) // no upstream works for a request that a limit refuses
    const release = await this.#tokenizing.enter(caller.user.id, tokenizeMs)
    if (!release) return estimate
    return (await countTokens(request, signal).finally(release)) ?? estimate
  }

  /** The log line has how much was said, and never what. */
  async #call(
    model: LanguageModel,
    question: Question,
    promptTokens: number,
    { signal, isOver }: { signal: AbortSignal; isOver: () => boolean },
  ): Promise<Completion> {
    const { caller, exchange } = question
    const { requestId } = exchange
    const account = caller.user.id
    const { id, request } = await this.#admit(question, promptTokens)
    let used: TokenUsage | undefined
    let outcome = 'failed'
    try {
      const completion = await model.complete(request, { account, signal, requestId })
      used = completion.usage
      outcome = completion.finish
      return completion
    } catch (failure) {
      if (!(failure instanceof ModelFailure)) throw failure
      outcome = failure.reason
      used = paidBy(failure, exchange.signal.aborted)
      if (failure.reason === 'refused') throw new CodedError('INVALID_REQUEST')
      throw this.#unanswered(used !== undefined && isOver())
    } finally {
      await this.#settlements.settle({ id, userId: account }, used, requestId)
      this.#options.log.info({ requestId, account, key: keyOf(caller), outcome, ...used }, 'chat completion')
    }
  }

  #unanswered(tookTooLong: boolean): CodedError {
    if (this.#isEnding) return new CodedError('SERVER_OVERLOADED', undefined, retrySeconds.ending)
    if (!tookTooLong) return new CodedError('SERVER_OVERLOADED')
    const { seconds = chatLimits.seconds } = this.#options
    const message = `The answer took longer than ${seconds} s. Set a smaller max_tokens.`
    return new CodedError('SERVER_OVERLOADED', message, retrySeconds.tooLong)
  }

  /** With searches if the budgets have room for all that they may bring and for the whole answer, else without. */
  async #admit(question: Question, promptTokens: number): Promise<Admitted> {
    const { request, caller } = question
    const more = this.#options.searches && offersSearch(request) ? searchTokens(request, promptTokens) : 0
    if (more > 0) {
      const { id, ...admission } = await this.#requestSlot(question, promptTokens + more)
      // Every other refusal may be one of the tokens: what calls in progress hold of a budget is refused as busy.
      if ('refusal' in admission && admission.refusal === 'RATE_LIMIT_EXCEEDED') throw refused(admission)
      if ('granted' in admission) {
        if (admission.granted === request.maxTokens) return { id, request: { ...request, webSearch: true } }
        // Searches are not worth a shorter answer.
        await this.#settlements.settle({ id, userId: caller.user.id }, undefined)
      }
    }
    const { id, ...admission } = await this.#requestSlot(question, promptTokens)
    if ('refusal' in admission) throw refused(admission)
    return { id, request: { ...request, maxTokens: admission.granted, webSearch: false } }
  }

  /** Counts the request along with its first slot. Throws as `Counting.count` does, and then holds no slot. */
  async #requestSlot(question: Question, promptTokens: number): Promise<CallAdmission & { id: string }> {
    const { caller, request, counting } = question
    const { db, dailyTokens } = this.#options
    const { user, plan } = caller
    const call = {
      id: newId(),
      userId: user.id,
      keyId: keyOf(caller),
      tokens: { prompt: promptTokens, answer: request.maxTokens },
      slots: plan.aiConcurrent,
      pacingSeconds: plan.aiPacingSeconds,
      budgets: { account: plan.aiTokensPerDay, key: user.ai_tokens_per_day, platform: dailyTokens },
    }
    const admitting = counting.isCounted
      ? admitCall(db, call)
      : counting
          .countedBy(counters => countAndAdmitCall(db, call, counters))
          .then(({ admission }) => admission ?? admitCall(db, call))
    const admission = await withinDeadline(admitting).catch(error => {
      if (counting.isRefused) throw error
      // Whether the slot was taken, or still will be, is unknown: it is freed once that is over.
      const free = () => this.#settlements.settle(call, undefined)
      void admitting.then(free, free).catch(ignoreError('it never rejects'))
      throw error
    })
    return { ...admission, id: call.id }
  }
}

const refused = ({ refusal, waitSeconds }: Extract<CallAdmission, { refusal: CallRefusal }>): CodedError =>
  new CodedError(refusal, undefined, waitSeconds)

/**
 * What a failed call costs: what was generated. A caller who left before that pays for the prompt that the model was sent, and so does
 * not have it read for nothing; anybody else has received nothing, and pays nothing.
 */
function paidBy({ generated }: ModelFailure, callerLeft: boolean): TokenUsage | undefined {
  return generated && (generated.completion > 0 || callerLeft) ? generated : undefined
}
