import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { KiB, MiB } from '../../lib/bytes.ts'
import { networkOf, plainAddress } from './address.ts'

export interface ServerLimits {
  connections: number
  /** For one IPv4 address or one IPv6 /64, except those that `unlimited` names (loopback, proxies), which stand for many clients. */
  connectionsPerAddress: number
  unlimited(address: string): boolean
}

/** The connections of a server, each with its outstanding answers, in order. */
type Connections = Map<Socket, Set<ServerResponse>>
const connectionsOf = new WeakMap<Server, Connections>()

/** Pipelined requests on one connection. All requests of a packet start together, and no well-behaved client sends more. */
const maxPipelined = 32

/** Why a request that is not well-formed is refused: the status line, and the id that the answer shows. */
interface MalformedRequest {
  status: '400 Bad Request' | '431 Request Header Fields Too Large'
  requestId: string
}

/** Renders the answer to a request that is not well-formed, as the wire of a port has it: a content type, a body, and further headers. */
export type RenderMalformed = (refused: MalformedRequest) => { headers: Record<string, string>; body: string }

/** A server that disconnects slow and hostile clients, whatever they send. Not listening yet. */
export function hardenedServer(
  serving: RequestListener,
  limits: ServerLimits,
  render: RenderMalformed = inJson,
): Server {
  const connections: Connections = new Map()
  const malformed = (status: MalformedRequest['status']) => malformedAnswer(status, render)
  const listener = cappedPerConnection(serving, connections, malformed)
  const server = createServer(
    {
      headersTimeout: 10_000,
      connectionsCheckingInterval: 2_000,
      // Bodies have timeouts of their own, which depend on what is sent.
      requestTimeout: 0,
      keepAliveTimeout: 75_000,
      maxHeaderSize: 16 * KiB,
      // Node's own answer would have no request id.
      requireHostHeader: false,
    },
    listener,
  )
  server.maxHeadersCount = 100
  server.maxConnections = limits.connections
  connectionsOf.set(server, connections)
  server.on('connection', (socket: Socket) => {
    connections.set(socket, new Set())
    socket.once('close', () => connections.delete(socket))
  })
  capPerAddress(server, limits)
  // The listener itself sends 100 Continue, once it is ready for the body.
  server.on('checkContinue', listener)
  // Any other expectation is ignored, as the proxy ignores it.
  server.on('checkExpectation', listener)
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable || error.code === 'ECONNRESET') return socket.destroy()
    socket.end(
      malformed(error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request'),
    )
  })
  return server
}

const inJson: RenderMalformed = ({ requestId }) => ({
  headers: { 'Content-Type': 'application/json; charset=utf-8', 'X-Request-Id': requestId },
  body: '{"status":"error","code":"INVALID_INPUT","message":"The request is not well-formed HTTP."}',
})

function malformedAnswer(status: MalformedRequest['status'], render: RenderMalformed): string {
  const { headers, body } = render({ status, requestId: randomUUID() })
  const all = { ...headers, 'Content-Length': Buffer.byteLength(body), Connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${status}`, ...lines, '', body].join('\r\n')
}

function capPerAddress(server: Server, limits: ServerLimits): void {
  const open = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    if (limits.unlimited(socket.remoteAddress ?? '')) return
    const address = networkOf(plainAddress(socket.remoteAddress ?? ''))
    const count = (open.get(address) ?? 0) + 1
    open.set(address, count)
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1
      left > 0 ? open.set(address, left) : open.delete(address)
    })
    if (count > limits.connectionsPerAddress) socket.destroy()
  })
}

function cappedPerConnection(
  listener: RequestListener,
  connections: Connections,
  malformed: (status: MalformedRequest['status']) => string,
): RequestListener {
  return (request, response) => {
    const { socket } = request
    if (request.headers.host === undefined && request.httpVersion === '1.1')
      return void socket.end(malformed('400 Bad Request'))
    const waiting = connections.get(socket)
    if (!waiting || waiting.size >= maxPipelined) return void socket.destroy()
    waiting.add(response)
    response.once('close', () => waiting.delete(response))
    listener(request, response)
  }
}

/** A slow client is disconnected this long after its request started, and has at least `minLingerMs` to read why. */
const maxRequestMs = 33_000
const minLingerMs = 2_000
const idleMs = 4_000
const lingerBytes = 128 * MiB
const readWithinMs = 30_000

/**
 * After the reply: discards the rest of a refused body, within bounds, because closing immediately would reset the connection before
 * the client has read why; and disconnects a client that does not take its answer.
 */
export function linger(request: IncomingMessage, response: ServerResponse, startedAt: number): void {
  if (!request.complete && !request.socket.destroyed)
    discardBody(request, Math.max(minLingerMs, maxRequestMs - (performance.now() - startedAt)))
  if (response.closed || response.writableFinished || response.writableLength < 64 * KiB) return
  const timer = setTimeout(() => response.destroy(), readWithinMs)
  response.once('close', () => clearTimeout(timer))
}

function discardBody(request: IncomingMessage, lingerMs: number): void {
  const { socket } = request
  const maxBytesRead = socket.bytesRead + lingerBytes
  const cut = () => socket.destroy()
  const deadline = setTimeout(cut, lingerMs)
  let idle = setTimeout(cut, idleMs)
  const take = () => {
    clearTimeout(idle)
    idle = setTimeout(cut, idleMs)
    if (socket.bytesRead > maxBytesRead) cut()
  }
  const over = () => {
    clearTimeout(deadline)
    clearTimeout(idle)
    request.off('data', take).off('close', over)
    socket.off('close', over)
  }
  request.on('data', take).once('close', over)
  // A request that was answered before it arrived completely emits no event when its connection ends.
  socket.once('close', over)
  request.resume()
}

/** Stops accepting connections, gives open requests `seconds` to end, then closes the rest. */
export async function drain(servers: readonly Server[], seconds: number): Promise<void> {
  const closed = Promise.all(servers.map(stopAccepting))
  for (const server of servers) for (const connection of connectionsOf.get(server) ?? []) endAfterLast(...connection)
  const timer = setTimeout(() => {
    for (const server of servers) server.closeAllConnections()
  }, seconds * 1000)
  await closed
  clearTimeout(timer)
}

/** The `close` of an HTTP server would also drop answers that are written and not yet sent. Resolves when every connection has ended. */
function stopAccepting(server: Server): Promise<unknown> {
  return new Promise(resolve => NetServer.prototype.close.call(server, resolve))
}

function endAfterLast(socket: Socket, waiting: ReadonlySet<ServerResponse>): void {
  const last = [...waiting].at(-1)
  if (!last) return void socket.destroy()
  // Sends `Connection: close`, unless the headers are already sent.
  last.shouldKeepAlive = false
  last.once('close', () => socket.destroySoon())
}
