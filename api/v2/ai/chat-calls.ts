import { setTimeout as sleep } from 'node:timers/promises'
import type { CountTokens, LanguageModel } from '../../../activities/language-model/port.ts'
import { admitCall, settleCall } from '../../../db/ai/ai-calls.ts'
import type { Db } from '../../../db/database.ts'
import { withTimeout } from '../../../lib/async/timeout.ts'
import type { ChatRequest, Completion, TokenUsage } from '../../../policy/ai/chat.ts'
import { chatLimits, settling } from '../../../policy/ai/chat-limits.ts'
import { ModelFailure } from '../../../policy/ai/model-failure.ts'
import { searchTokens } from '../../../policy/ai/search-terms.ts'
import { estimateTokens } from '../../../policy/ai/tokens.ts'
import { ApiError } from '../../../policy/errors.ts'
import { newId } from '../../../policy/ids.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Log } from '../../pipeline/core-services.ts'
import { withinDeadline } from '../../pipeline/deadline.ts'

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
}

/** The key by which a caller's usage is counted; null for a session. */
export const keyOf = ({ kind, user }: Caller): string | null => (kind === 'key' ? user.credential_id : null)

/** The model is not configured, or has gone with this process: trying again at once would not help, or would. */
const notConfiguredSeconds = 300
const endingSeconds = 1

/** The calls of one process that models are answering. Each holds a slot in Postgres from its admission until it is settled. */
export class ChatCalls {
  readonly #options: ChatCallsOptions
  readonly #running = new Map<AbortController, Promise<unknown>>()
  #isEnding = false

  constructor(options: ChatCallsOptions) {
    this.#options = options
  }

  /**
   * The model's answer to a conversation. Throws CONTEXT_LENGTH_EXCEEDED, the refusals of `admitCall`, INVALID_REQUEST when the model
   * refuses the request, and SERVER_OVERLOADED when no model answers in time.
   */
  async answer({ caller, exchange, request }: Question): Promise<Completion> {
    const { seconds = chatLimits.seconds, model } = this.#options
    const ending = new AbortController()
    const end = () => ending.abort()
    const timer = setTimeout(end, exchange.startedAt + seconds * 1000 - performance.now())
    exchange.signal.addEventListener('abort', end, { once: true })
    if (exchange.signal.aborted || this.#isEnding) end()
    try {
      const promptTokens = await this.#promptTokens(request, ending.signal)
      const { aiContextTokens } = caller.plan
      if (promptTokens > aiContextTokens)
        throw new ApiError(
          'CONTEXT_LENGTH_EXCEEDED',
          `The messages and tools have about ${promptTokens} tokens; your plan allows ${aiContextTokens}.`,
        )
      if (!model) throw new ApiError('SERVER_OVERLOADED', 'This platform has no language model.', notConfiguredSeconds)
      const call = this.#call(model, { caller, exchange, request }, promptTokens, ending.signal)
      this.#running.set(ending, call)
      return await call.finally(() => this.#running.delete(ending))
    } finally {
      clearTimeout(timer)
      exchange.signal.removeEventListener('abort', end)
    }
  }

  /** Waits for the calls in progress; after `graceSeconds` they are cut, and their callers told to try again. Each is settled. */
  async end(graceSeconds: number): Promise<void> {
    const cut = setTimeout(() => {
      this.#isEnding = true
      for (const ending of this.#running.keys()) ending.abort()
    }, graceSeconds * 1000)
    while (this.#running.size > 0) await Promise.allSettled(this.#running.values())
    clearTimeout(cut)
    await this.#options.model?.close()
  }

  async #promptTokens(request: ChatRequest, signal: AbortSignal): Promise<number> {
    const exact = await this.#options.countTokens?.(request, signal)
    return exact ?? estimateTokens(request.messages, request.tools)
  }

  /** The log line has how much was said, and never what. */
  async #call(
    model: LanguageModel,
    { caller, exchange: { requestId }, request }: Question,
    promptTokens: number,
    signal: AbortSignal,
  ): Promise<Completion> {
    const { id, maxTokens } = await this.#admit(caller, request, promptTokens)
    let used: TokenUsage | undefined
    let outcome = 'failed'
    try {
      const completion = await model.complete({ ...request, maxTokens }, { account: caller.user.id, signal, requestId })
      used = completion.usage
      outcome = completion.finish
      return completion
    } catch (failure) {
      if (!(failure instanceof ModelFailure)) throw failure
      used = failure.generated
      outcome = failure.reason
      if (failure.reason === 'refused') throw new ApiError('INVALID_REQUEST')
      throw new ApiError('SERVER_OVERLOADED', undefined, this.#isEnding ? endingSeconds : undefined)
    } finally {
      await this.#settle(id, used, requestId)
      const account = caller.user.id
      this.#options.log.info({ requestId, account, key: keyOf(caller), outcome, ...used }, 'chat completion')
    }
  }

  async #admit(caller: Caller, request: ChatRequest, promptTokens: number): Promise<{ id: string; maxTokens: number }> {
    const { db, dailyTokens, searches } = this.#options
    const { user, plan } = caller
    const id = newId()
    const admission = await withinDeadline(
      admitCall(db, {
        id,
        userId: user.id,
        keyId: keyOf(caller),
        tokens: {
          prompt: promptTokens + (searches ? searchTokens(request, promptTokens) : 0),
          answer: request.maxTokens,
        },
        slots: plan.aiConcurrent,
        pacingSeconds: plan.aiPacingSeconds,
        budgets: { account: plan.aiTokensPerDay, key: user.ai_tokens_per_day, platform: dailyTokens },
      }),
    ).catch(error => {
      // Whether the slot was taken is unknown: if it was, it is free again once Postgres hears of it.
      void this.#settle(id, undefined)
      throw error
    })
    if ('refusal' in admission) throw new ApiError(admission.refusal, undefined, admission.waitSeconds)
    return { id, maxTokens: admission.granted }
  }

  /** Frees the slot before the answer is sent, so that the caller's next request finds it free. Never rejects: the slot ends by itself too. */
  async #settle(id: string, usage: TokenUsage | undefined, requestId?: string): Promise<void> {
    const { db, log } = this.#options
    const until = performance.now() + settling.withinMs
    for (let tries = 1; ; tries++) {
      const left = until - performance.now()
      try {
        await withTimeout(settleCall(db, id, usage), left, () => new Error('Postgres did not answer in time'))
        return
      } catch (err) {
        if (tries >= settling.tries || until - performance.now() <= settling.pauseMs) {
          const fields = { err, requestId, call: id, prompt: usage?.prompt, completion: usage?.completion }
          log.error(fields, 'a call of the AI gateway could not be settled; its slot ends by itself')
          return
        }
        await sleep(settling.pauseMs)
      }
    }
  }
}
