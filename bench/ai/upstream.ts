import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answerTokens, silent } from './calls.ts'

/**
 * The server that both sides of `bench/ai.ts` ask: it streams an answer with a chunk for each token, each in a turn of its own, as fast as it
 * can. To a conversation that contains the word for it, it sends nothing after its headers. Says its port over IPC.
 */
const event = (object: object): string => `data: ${JSON.stringify(object)}\n\n`
const chunk = (delta: object, finish: string | null = null): string =>
  event({
    id: 'chatcmpl-0123456789abcdef',
    object: 'chat.completion.chunk',
    created: 1_790_000_000,
    model: 'scripted',
    choices: [{ index: 0, delta, finish_reason: finish }],
  })

const pieces: readonly Buffer[] = [
  chunk({ role: 'assistant', content: '' }),
  ...Array.from({ length: answerTokens }, (_, n) => chunk({ content: ` w${n % 10}rd` })),
  chunk({}, 'stop'),
  event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: answerTokens, total_tokens: 9 + answerTokens } }),
  'data: [DONE]\n\n',
].map(text => Buffer.from(text))

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = ''
  for await (const text of request.setEncoding('utf8')) body += text
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
  if (body.includes(silent)) return
  let n = 0
  const next = () => {
    if (response.destroyed) return
    if (n === pieces.length) return void response.end()
    response.write(pieces[n++])
    setImmediate(next)
  }
  next()
}

const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()))
server.listen(0, '127.0.0.1', () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, pid: process.pid })
})
process.on('disconnect', () => process.exit())
