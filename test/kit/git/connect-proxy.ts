import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect, type Socket } from 'node:net'

export interface ConnectProxy {
  port: number
  /** `http://127.0.0.1:port`, without credentials. */
  url: string
  /** Every request so far: its method, and what it asked for. */
  requests: { method: string; target: string; authorization: string | null }[]
  /** Ports on loopback of the servers that it knows, by `host:port`; it answers 503 for any other. */
  servers: Map<string, number>
  /** Statuses with which it refuses what is asked of it, by `host:port`. */
  refusals: Map<string, number>
  /** From now on it accepts connections and requests, and says nothing. */
  silence(): void
  stop(): Promise<void>
}

export interface ConnectProxyOptions {
  /** `user:password` that it demands. */
  credentials?: string
  /** What it presents, if it is spoken to with TLS. */
  tls?: { key: string; cert: string }
}

/** A proxy as companies have them: it resolves names itself, opens tunnels by CONNECT, and passes plain http on. */
export async function startConnectProxy({ credentials, tls }: ConnectProxyOptions = {}): Promise<ConnectProxy> {
  const requests: ConnectProxy['requests'] = []
  const servers = new Map<string, number>()
  const refusals = new Map<string, number>()
  const wanted = credentials === undefined ? null : `Basic ${Buffer.from(credentials).toString('base64')}`
  const open = new Set<Socket>()
  let isSilent = false

  /** The port that a request leads to, or the status that refuses it. */
  function decide({ method = '', headers }: IncomingMessage, target: string, server: string) {
    const authorization = headers['proxy-authorization'] ?? null
    requests.push({ method, target, authorization })
    if (wanted !== null && authorization !== wanted) return { status: 407 }
    const status = refusals.get(server)
    if (status !== undefined) return { status }
    const port = servers.get(server)
    return port === undefined ? { status: 503 } : { port }
  }

  const onTunnel = (asked: IncomingMessage, client: Socket) => {
    client.on('error', () => {})
    const { port, status } = decide(asked, asked.url ?? '', asked.url ?? '')
    if (isSilent) return
    if (port === undefined) return client.end(`HTTP/1.1 ${status} Refused\r\nproxy-authenticate: Basic\r\n\r\n`)
    const server = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Established\r\n\r\n')
      server.pipe(client).pipe(server)
    })
    server.on('error', () => client.destroy())
    client.on('close', () => server.destroy())
  }
  const onRequest = (asked: IncomingMessage, answer: ServerResponse) => {
    const url = new URL(asked.url ?? '', 'http://none')
    const { port, status } = decide(asked, url.href, `${url.hostname}:${url.port || 80}`)
    if (isSilent) return
    if (port === undefined) return answer.writeHead(status ?? 500, { 'proxy-authenticate': 'Basic' }).end()
    const { 'proxy-authorization': _, ...headers } = asked.headers
    const passed = { host: '127.0.0.1', port, method: asked.method, path: url.pathname + url.search, headers }
    const inner = request(passed, given => {
      answer.writeHead(given.statusCode ?? 500, given.headers)
      given.pipe(answer)
    })
    inner.on('error', () => answer.destroy())
    asked.pipe(inner)
  }
  const proxy: Server = tls ? createTlsServer(tls, onRequest) : createServer(onRequest)
  proxy.on('connect', onTunnel).on('connection', (socket: Socket) => open.add(socket))
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  const { port } = proxy.address() as { port: number }
  return {
    ...{ port, requests, servers, refusals, url: `http://127.0.0.1:${port}` },
    silence: () => {
      isSilent = true
    },
    async stop() {
      for (const socket of open) socket.destroy()
      await new Promise(resolve => proxy.close(resolve))
    },
  }
}
