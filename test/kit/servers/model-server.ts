import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AiSettings, aiSettings } from '../../../policy/ai/ai-settings.ts'
import type { ToolCall } from '../../../policy/ai/chat.ts'
import { comesTrue } from '../comes-true.ts'
import { startOrigin } from './origin.ts'

/** What the server does with one request. Without anything it streams "Hello!" as real servers do. */
export interface ModelScript {
  /** Another status than 200, with `body` as its text. */
  status?: number
  headers?: Record<string, string>
  /** Sent as it is instead of an answer; with the status 200 as Server-Sent Events unless `headers` say otherwise. */
  body?: string
  /** Wait before the status line, in milliseconds. */
  headersAfterMs?: number
  /** What is waited for before the status line. */
  after?: Promise<unknown>
  /** The text, in one piece or in several. */
  text?: string | readonly string[]
  /** What the model thinks before. */
  reasoning?: string
  toolCalls?: readonly ToolCall[]
  /** How calls of tools arrive: whole (default), in pieces of a few characters, or without ids. */
  toolForm?: 'whole' | 'pieces' | 'without-ids'
  /** Null: the reason to finish is left out. */
  finish?: string | null
  /** Null: no usage. */
  usage?: { prompt: number; completion: number } | null
  /** False: no `[DONE]`. */
  done?: boolean
  /** One object although a stream was requested. */
  json?: boolean
  /** Pause between events, in milliseconds. */
  everyMs?: number
  /** Comments, empty lines and an event without a choice between the events. */
  noise?: boolean
  /** Bytes of each chunk on the line, which splits events and characters. */
  chunkBytes?: number
  /** The line is cut after so many events; 0: before the status line. */
  cutAfter?: number
  /** Nothing more is said after so many events, and the line stays; 0: no status line comes. */
  silentAfter?: number
}

/** A request as it was received. */
export interface ModelRequest {
  path: string
  headers: IncomingMessage['headers']
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields of what is sent
  body: any
  /** How the response ended, once it has. */
  outcome: Promise<'answered' | 'aborted'>
}

/**
 * A server of the chat completions protocol that does what a test says. `next` scripts the next requests in their order, and
 * `otherwise` all further ones.
 */
export class ModelServer {
  readonly requests: ModelRequest[] = []
  otherwise: ModelScript | ((request: ModelRequest) => ModelScript) = {}
  /** The most requests that were being answered concurrently. */
  mostOpen = 0
  url = ''
  stop: () => Promise<void> = async () => {}
  readonly #open = new Set<ServerResponse>()
  readonly #next: ModelScript[] = []

  static async start(): Promise<ModelServer> {
    const server = new ModelServer()
    const origin = await startOrigin((request, response) => void server.#serve(request, response))
    server.url = `http://127.0.0.1:${origin.port}/v1`
    server.stop = origin.stop
    return server
  }

  /** Requests that are being answered now. */
  get open(): number {
    return this.#open.size
  }

  next(...scripts: ModelScript[]): void {
    this.#next.push(...scripts)
  }

  /** Forgets all scripts and requests. */
  reset(): void {
    this.#next.length = 0
    this.requests.length = 0
    this.otherwise = {}
    this.mostOpen = this.#open.size
  }

  /** Resolves once there have been so many requests. */
  received(count: number): Promise<void> {
    return comesTrue(() => this.requests.length >= count)
  }

  /** As an operator sets it up. */
  settings(own: Record<string, string> = {}): AiSettings {
    return aiSettings({ AI_UPSTREAM_URL: this.url, AI_UPSTREAM_MODEL: 'scripted', ...own })
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const outcome = new Promise<'answered' | 'aborted'>(resolve => {
      response.on('close', () => {
        this.#open.delete(response)
        resolve(response.writableFinished ? 'answered' : 'aborted')
      })
    })
    this.mostOpen = Math.max(this.mostOpen, this.#open.add(response).size)
    let text = ''
    try {
      for await (const chunk of request.setEncoding('utf8')) text += chunk
    } catch {
      return // aborted while it was sent
    }
    const received: ModelRequest = {
      path: request.url ?? '',
      headers: request.headers,
      body: JSON.parse(text),
      outcome,
    }
    this.requests.push(received)
    const otherwise = typeof this.otherwise === 'function' ? this.otherwise(received) : this.otherwise
    await answer(response, this.#next.shift() ?? otherwise, outcome)
    if (response.writableEnded) this.#open.delete(response) // its reader knows before this side does
  }
}

const arrivalMs = 30

async function answer(response: ServerResponse, script: ModelScript, outcome: Promise<unknown>): Promise<void> {
  const { headersAfterMs = 0, cutAfter, silentAfter, status = 200, everyMs = 0 } = script
  if (headersAfterMs > 0) await Promise.race([sleep(headersAfterMs, undefined, { ref: false }), outcome])
  await Promise.race([script.after, outcome])
  if (cutAfter === 0) return void response.destroy()
  if (silentAfter === 0) return
  const isEvents = status === 200 && !script.json
  const type = isEvents ? 'text/event-stream; charset=utf-8' : 'application/json'
  response.writeHead(status, { 'content-type': type, ...script.headers })
  response.flushHeaders()
  if (script.body !== undefined) return void response.end(script.body)
  if (!isEvents) return void response.end(JSON.stringify(status === 200 ? whole(script) : { error: { message: 'no' } }))
  for (const [n, event] of eventsOf(script).entries()) {
    if (n > 0 && everyMs > 0) await Promise.race([sleep(everyMs, undefined, { ref: false }), outcome])
    if (n === cutAfter || n === silentAfter) break
    if (response.destroyed) return
    await write(response, Buffer.from(event), script.chunkBytes)
  }
  if (silentAfter !== undefined) return
  if (cutAfter === undefined) return void response.end()
  await sleep(arrivalMs) // what is cut off together with its line never reaches a reader
  response.destroy()
}

/** Each chunk arrives by itself: the line is left to others between two. */
async function write(response: ServerResponse, bytes: Buffer, chunkBytes = bytes.length): Promise<void> {
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    response.write(bytes.subarray(at, at + chunkBytes))
    if (chunkBytes < bytes.length) await new Promise(resolve => setImmediate(resolve))
  }
}

function eventsOf(script: ModelScript): string[] {
  const { text, reasoning, toolCalls = [], toolForm = 'whole', noise, usage, done } = script
  const pieces = typeof text === 'string' ? [text] : (text ?? (toolCalls.length > 0 ? [] : ['Hel', 'lo!']))
  const finish = finishOf(script)
  const choices = [
    { delta: { role: 'assistant', content: '' } },
    ...(reasoning ? [{ delta: { reasoning_content: reasoning } }] : []),
    ...pieces.map(content => ({ delta: { content } })),
    ...toolCalls
      .flatMap((call, index) => toolDeltas(call, index, toolForm))
      .map(call => ({ delta: { tool_calls: [call] } })),
    ...(finish === null ? [] : [{ delta: {}, finish_reason: finish }]),
  ]
  const objects: object[] = choices.map(choice => ({
    object: 'chat.completion.chunk',
    choices: [{ index: 0, finish_reason: null, ...choice }],
  }))
  if (usage !== null) objects.push({ object: 'chat.completion.chunk', choices: [], usage: wireUsage(usage) })
  if (noise) objects.splice(1, 0, { object: 'chat.completion.chunk', choices: [] })
  const events = [...objects.map(object => JSON.stringify(object)), ...(done === false ? [] : ['[DONE]'])]
  const quiet = noise ? ': still here\n\n\r\nevent: message\nretry: 5\nunknown\n' : ''
  return events.map(data => `${quiet}data: ${data}\n\n`)
}

function toolDeltas(call: ToolCall, index: number, form: ModelScript['toolForm']): object[] {
  const { id, type, function: called } = call
  if (form === 'whole') return [{ index, id, type, function: called }]
  if (form === 'without-ids') return [{ index, function: called }]
  const pieces = called.arguments.match(/[\s\S]{1,3}/g) ?? []
  return [
    { index, id, type, function: { name: called.name, arguments: '' } },
    ...pieces.map(text => ({ index, function: { arguments: text } })),
  ]
}

function whole(script: ModelScript): object {
  const { text, toolCalls, usage } = script
  const content = typeof text === 'string' ? text : (text?.join('') ?? (toolCalls ? null : 'Hello!'))
  return {
    object: 'chat.completion',
    choices: [
      { index: 0, message: { role: 'assistant', content, tool_calls: toolCalls }, finish_reason: finishOf(script) },
    ],
    ...(usage !== null && { usage: wireUsage(usage) }),
  }
}

const finishOf = ({ finish, toolCalls }: ModelScript): string | null =>
  finish === undefined ? (toolCalls?.length ? 'tool_calls' : 'stop') : finish

const wireUsage = ({ prompt, completion } = { prompt: 9, completion: 3 }) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
})

/** A call of a function, as models request it. */
export const toolCall = (name: string, args: unknown = {}, id = `call_${name}`): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(args) },
})
