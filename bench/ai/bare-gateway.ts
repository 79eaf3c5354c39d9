import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'

/**
 * The floor of `bench/ai.ts`: a bare Node server that requests the answer as a stream, assembles it and sends it as one object, and nothing
 * else: no account, no limit, no row. Takes the address of the upstream; says its port and process over IPC.
 */
const upstream = new URL(process.argv[2] ?? '')
const pool = new Pool(upstream.origin, { headersTimeout: 0, bodyTimeout: 0 })
const headers = { 'content-type': 'application/json' }

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = ''
  for await (const piece of request.setEncoding('utf8')) text += piece
  const { messages } = JSON.parse(text)
  const body = JSON.stringify({ model: 'scripted', messages, stream: true, stream_options: { include_usage: true } })
  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  const { signal } = leaving
  const { body: events } = await pool.request({
    path: `${upstream.pathname}/chat/completions`,
    method: 'POST',
    headers,
    body,
    signal,
  })
  let [rest, content, finish, usage] = ['', '', '', {}]
  for await (const piece of events.setEncoding('utf8') as AsyncIterable<string>) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue
      const { choices, usage: counted } = JSON.parse(line.slice(6))
      content += choices[0]?.delta.content ?? ''
      finish = choices[0]?.finish_reason ?? finish
      usage = counted ?? usage
    }
  }
  const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: finish }]
  const completion = { id: 'chatcmpl-0', object: 'chat.completion', created: 0, model: 'cubic', choices, usage }
  response.writeHead(200, headers).end(JSON.stringify(completion))
}

const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()))
server.listen(0, '127.0.0.1', () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, pid: process.pid })
})
process.on('disconnect', () => process.exit())
