import { DecoratorHandler, type Dispatcher, Pool } from 'undici'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { AiUpstream } from '../../policy/ai/ai-settings.ts'
import type { ChatRequest } from '../../policy/ai/chat.ts'
import { type UpstreamTimes, upstreamTimes } from '../../policy/ai/upstreams.ts'
import { Answer, NoAnswer } from './answer.ts'
import { type AnswerReader, eventReader, jsonReader } from './answer-stream.ts'
import { type Upstream, UpstreamFailure, type UpstreamFailureKind } from './upstream.ts'

type Response = Awaited<ReturnType<Pool['request']>>

/** An idle connection ends before servers end it: what is sent on one that has just been ended is lost. */
const idleMs = { usual: 1500, max: 4000 }
/** What follows an answer is read for this long, so that its connection serves the next call. */
const remainderMs = 1000

/** A server that speaks the chat completions protocol. Its answers are always requested as a stream: only then do servers notice immediately that a caller has left. */
export function httpUpstream(upstream: AiUpstream, times: UpstreamTimes = upstreamTimes): Upstream {
  const { origin, pathname: path } = new URL(`${upstream.url}/chat/completions`)
  const pool = new Pool(origin, {
    connect: { timeout: times.connectMs },
    // The call has its own clock, which knows pieces of answers from noise.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: idleMs.usual,
    keepAliveMaxTimeout: idleMs.max,
  })
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'text/event-stream, application/json',
    'user-agent': 'berth',
  }
  if (upstream.key) headers.authorization = `Bearer ${upstream.key}`

  return {
    async complete(request, { signal, onFirstPiece }) {
      const answer = new Answer(request)
      const clock = new CallClock(signal, times)
      let status: number | undefined
      let wasSent = false
      try {
        clock.signal.throwIfAborted()
        const body = JSON.stringify(bodyOf(request, upstream))
        // A redirect is not followed: the key and the conversation go to this server only.
        const sending = onSend(pool, () => {
          wasSent = true
        })
        const response = await sending.request({ path, method: 'POST', headers, body, signal: clock.signal })
        status = response.statusCode
        const reader = readerFor(response, answer)
        const onPiece = () => {
          if (answer.hasBegun && clock.begin()) onFirstPiece()
        }
        await readAnswer(response.body, reader, () => {
          onPiece()
          clock.restart(answer.isFinished)
        })
        onPiece()
        return answer.completion()
      } catch (error) {
        // The model has finished, and only what follows its answer is missing.
        if (answer.isFinished && clock.ended !== 'aborted' && !(error instanceof NoAnswer)) return answer.completion()
        const kind = clock.ended ?? (error instanceof UpstreamFailure ? error.kind : status ? 'broken' : 'unreachable')
        // A model that is sent a prompt reads it, although its caller has left.
        const isPaid = answer.hasBegun || (kind === 'aborted' && wasSent)
        const generated = isPaid ? answer.usage() : undefined
        throw new UpstreamFailure(kind, { status, code: codeOf(error), generated })
      } finally {
        clock.stop()
      }
    },
    close: () => pool.destroy(),
  }
}

/** The same pool; `isSent` is called when a request is written to a connection, and not while there is none. */
const onSend = (pool: Pool, isSent: () => void): Pick<Dispatcher, 'request'> =>
  pool.compose(dispatch => (options, handler) => {
    // Its types leave its methods out.
    const observed: Dispatcher.DispatchHandler = new DecoratorHandler(handler)
    const start = observed.onRequestStart?.bind(observed)
    observed.onRequestStart = (...args) => {
      isSent()
      start?.(...args)
    }
    return dispatch(options, observed)
  })

function bodyOf(request: ChatRequest, { model, maxTokensField }: AiUpstream): object {
  const { messages, tools, toolChoice, temperature, maxTokens } = request
  return {
    model,
    messages,
    [maxTokensField]: maxTokens,
    temperature,
    tools: tools?.length ? tools : undefined,
    tool_choice: tools?.length ? toolChoice : undefined,
    stream: true,
    stream_options: { include_usage: true },
  }
}

/**
 * The server decides by its content type: some answer with one object although a stream was requested. Throws for what is none of both,
 * and leaves its text unread.
 */
function readerFor({ statusCode, headers, body }: Response, answer: Answer): AnswerReader {
  const media = String(headers['content-type'] ?? '')
    .split(';')[0]!
    .trim()
    .toLowerCase()
  if (statusCode === 200 && media === 'text/event-stream') return eventReader(answer)
  if (statusCode === 200 && media === 'application/json') return jsonReader(answer)
  body.on('error', ignoreError('nobody reads it')).destroy()
  throw new UpstreamFailure(kindOf(statusCode))
}

function kindOf(status: number): UpstreamFailureKind {
  if (status === 400 || status === 422) return 'refused'
  return status === 408 || status === 429 || status >= 500 ? 'busy' : 'misconfigured'
}

/** Names of errors are fixed words; messages may hold addresses. */
function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown }).code
  return typeof code === 'string' && /^[A-Z_]{3,40}$/.test(code) ? code : undefined
}

/** Resolves once the answer is complete; the rest of the response is read without it. `onChunk` is called for each chunk. */
function readAnswer(body: Response['body'], reader: AnswerReader, onChunk: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let isOver = false
    const over = (then: () => void) => {
      isOver = true
      then()
    }
    body.on('data', chunk => {
      if (isOver) return
      try {
        const isComplete = reader.read(chunk)
        onChunk()
        if (!isComplete) return
        const timer = setTimeout(() => body.destroy(), remainderMs).unref()
        body.once('close', () => clearTimeout(timer))
        over(resolve)
      } catch (error) {
        over(() => reject(error))
        body.destroy()
      }
    })
    body.on('end', () => {
      if (isOver) return
      try {
        reader.end()
        over(resolve)
      } catch (error) {
        over(() => reject(error))
      }
    })
    body.on('error', error => over(() => reject(error)))
  })
}

/** Ends a call for its caller, or for its upstream's silence, whichever is first, and knows which it was. */
class CallClock {
  ended: 'aborted' | 'late' | 'broken' | null = null
  readonly #end = new AbortController()
  readonly #caller: AbortSignal
  readonly #times: UpstreamTimes
  #hasBegun = false
  /** The timer is that of silence. */
  #isRunning = false
  #isFinished = false
  #timer: NodeJS.Timeout
  readonly #onAbort = () => this.#stop('aborted')

  constructor(caller: AbortSignal, times: UpstreamTimes) {
    this.#caller = caller
    this.#times = times
    this.#timer = setTimeout(() => this.#stop('late'), times.firstPieceMs)
    if (caller.aborted) this.#onAbort()
    else caller.addEventListener('abort', this.#onAbort, { once: true })
  }

  get signal(): AbortSignal {
    return this.#end.signal
  }

  /** The answer has started: silence counts from now on. Returns whether it had not before. */
  begin(): boolean {
    const isFirst = !this.#hasBegun
    this.#hasBegun = true
    return isFirst
  }

  /** A chunk has arrived. Noise before the answer does not prolong the wait for it. */
  restart(isFinished: boolean): void {
    if (this.#isFinished || (!this.#hasBegun && !isFinished)) return
    // For each chunk: a timer of its own would cost more than the chunk.
    if (this.#isRunning && !isFinished) return void this.#timer.refresh()
    this.#isRunning = true
    this.#isFinished = isFinished
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#stop('broken'), isFinished ? this.#times.afterFinishMs : this.#times.silenceMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#caller.removeEventListener('abort', this.#onAbort)
  }

  #stop(why: 'aborted' | 'late' | 'broken'): void {
    this.ended ??= why
    this.#end.abort()
  }
}
