import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http'

export interface Origin {
  port: number
  server: Server
  stop(): Promise<void>
}

/** An application as the proxy sees it: an HTTP server on a loopback port, or on this one. */
export async function startOrigin(listener: RequestListener, port = 0): Promise<Origin> {
  const server = createServer(listener).listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as { port: number }).port,
    server,
    async stop() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Answers with its name, for telling origins apart. */
export const named = (name: string) => startOrigin((_, answer) => answer.end(name))

export interface Seen {
  status: number
  headers: IncomingMessage['headers']
  body: string
}

export interface Call {
  method?: string
  path?: string
  headers?: Record<string, string>
  body?: string | Buffer
  /** An address of this machine from which to ask. */
  from?: string
}

/** One request to the proxy under a host name, on a connection of its own. */
export function ask(port: number, host: string, call: Call = {}): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', path = '/', body } = call
    const headers = { host, ...call.headers }
    const sent = request({ port, host: '127.0.0.1', localAddress: call.from, method, path, agent: false, headers })
    sent.on('error', reject)
    sent.on('response', async answer => {
      const chunks: Buffer[] = []
      try {
        for await (const chunk of answer) chunks.push(chunk)
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks).toString() })
      } catch (error) {
        reject(error)
      }
    })
    sent.end(body)
  })
}
