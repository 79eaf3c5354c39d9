import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { z } from 'zod'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { MiB } from '../../lib/bytes.ts'
import { readCapped } from '../../lib/read-capped.ts'
import {
  type GeneratedText,
  PromptTooLong,
  type TextGenerator,
  type TextRequest,
  toyModelName,
} from './text-generator.ts'

export interface ToyServerOptions {
  generator: TextGenerator
  /** 0 = any free one. */
  port: number
  log: Pick<Logger, 'info' | 'error'>
  /** Requests that may wait while another one is answered. */
  maxWaiting?: number
}

const maxBodyBytes = 2 * MiB

/**
 * Serves a generator on loopback as others serve models: `POST /v1/chat/completions`, whole or as a stream, and `GET /v1/models`. One
 * request is answered at a time; those over `maxWaiting` get 503. What it cannot do, such as calling tools, it ignores.
 */
export async function serveToyModel(options: ToyServerOptions): Promise<{ url: string; server: Server }> {
  const complete = completions(options)
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 30_000 }, (req, res) => {
    const path = req.url?.split('?')[0]
    // A page in a browser of this machine reaches loopback too.
    if (req.headers.origin !== undefined) return refuse(res, 403, 'forbidden', 'Pages in browsers may not use this.')
    if (req.method === 'GET' && path === '/v1/models') return answer(res, 200, models)
    if (req.method !== 'POST' || path !== '/v1/chat/completions')
      return refuse(res, 404, 'not_found', 'There are POST /v1/chat/completions and GET /v1/models.')
    complete(req, res).catch(error => {
      options.log.error({ err: error }, 'a request was not answered')
      if (res.headersSent) res.destroy()
      else refuse(res, 500, 'server_error', 'The toy model failed.')
    })
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(options.port, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, server }
}

const models = { object: 'list', data: [{ id: toyModelName, object: 'model', created: 0, owned_by: 'toy' }] }

function completions({ generator, log, maxWaiting = 8 }: ToyServerOptions) {
  const slots = new FairSlots({ atOnce: 1 })
  /** Requests that are answered or wait. */
  let present = 0

  return async function complete(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const left = new AbortController()
    res.once('close', () => left.abort(new Error('the client has disconnected')))
    if (Number(req.headers['content-length']) > maxBodyBytes)
      return refuse(res, 413, 'payload_too_large', `A request has ${maxBodyBytes} bytes at most.`)
    const body = await readCapped(req, maxBodyBytes).catch(() => null)
    if (!body) return void res.destroy()
    const request = requestIn(body.toString())
    if (typeof request === 'string') return refuse(res, 400, 'invalid_request', request)
    if (present > maxWaiting) return refuse(res, 503, 'server_overloaded', `${maxWaiting} requests wait already.`)
    const startedAt = Date.now()
    present++
    let release = () => {}
    try {
      release = await slots.enterUntil('', left.signal)
      const { finish, usage } = await generate(generator, request, res, left.signal)
      log.info({ ...usage, finish, ms: Date.now() - startedAt }, 'answered')
    } catch (error) {
      if (left.signal.aborted) return log.info({ ms: Date.now() - startedAt }, 'the client has disconnected')
      if (!(error instanceof PromptTooLong)) throw error
      refuse(res, 400, 'context_length_exceeded', error.message)
    } finally {
      present--
      release()
    }
  }
}

/** A request as it arrives. `null` is what some clients send for what they leave out. */
const requestBody = z.object({
  messages: z
    .array(
      z.object({
        role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
        content: z.union([z.string(), z.array(z.object({ type: z.literal('text'), text: z.string() }))]).nullish(),
      }),
    )
    .min(1),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
})

type ToyRequest = TextRequest & { streams: boolean; streamsUsage: boolean }

/** Of answers that request no other. A longer one would take more than the time that callers wait. */
const usual = { maxTokens: 512, temperature: 0.2 }

/** The request in a body, or what is wrong with it. */
function requestIn(text: string): ToyRequest | string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'The body is not JSON.'
  }
  const { data, error } = requestBody.safeParse(value)
  if (!data) return error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; ')
  return {
    turns: data.messages.map(({ role, content }) => ({
      role: role === 'developer' ? 'system' : role,
      content: Array.isArray(content) ? content.map(({ text }) => text).join('') : (content ?? ''),
    })),
    maxTokens: Math.min(data.max_tokens ?? data.max_completion_tokens ?? usual.maxTokens, usual.maxTokens),
    temperature: data.temperature ?? usual.temperature,
    streams: data.stream ?? false,
    streamsUsage: data.stream_options?.include_usage ?? false,
  }
}

/** Generates the answer into the response. Until its first piece, nothing is sent and it can still be refused. */
async function generate(
  generator: TextGenerator,
  request: ToyRequest,
  res: ServerResponse,
  signal: AbortSignal,
): Promise<GeneratedText> {
  const head = { id: `chatcmpl-${randomBytes(12).toString('hex')}`, created: Math.floor(Date.now() / 1000) }
  const object = request.streams ? 'chat.completion.chunk' : 'chat.completion'
  const reply = (rest: object) => JSON.stringify({ ...head, object, model: toyModelName, ...rest })
  const frame = (delta: object, finish_reason: string | null = null) => {
    if (!res.headersSent) {
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      frame({ role: 'assistant', content: '' })
    }
    res.write(`data: ${reply({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`)
  }
  let content = ''
  const outcome = await generator.generate(
    request,
    piece => {
      if (request.streams) frame({ content: piece })
      else content += piece
    },
    signal,
  )
  const { prompt, completion } = outcome.usage
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  if (request.streams) {
    frame({}, outcome.finish)
    if (request.streamsUsage) res.write(`data: ${reply({ choices: [], usage })}\n\n`)
    res.end('data: [DONE]\n\n')
  } else {
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: outcome.finish }]
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(reply({ choices, usage }))
  }
  return outcome
}

function answer(res: ServerResponse, status: number, value: unknown): void {
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))
}

function refuse(res: ServerResponse, status: number, code: string, message: string): void {
  // A body that was not read must not be taken for the next request.
  res.setHeader('Connection', 'close')
  if (status === 503) res.setHeader('Retry-After', '5')
  answer(res, status, { error: { message, type: status < 500 ? 'invalid_request_error' : 'server_error', code } })
}
