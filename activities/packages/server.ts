import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { BlockList, type Socket } from 'node:net'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { upPath } from '../../policy/packages/registries.ts'
import { absent, type archives } from './archives.ts'
import type { documents } from './documents.ts'
import type { UseCounts } from './job.ts'
import type { Wanted } from './kinds/kind.ts'
import type { lists } from './lists.ts'
import { piecesOf } from './pieces.ts'
import type { RegistryPaths } from './registry.ts'
import type { Served } from './served.ts'
import type { Asker } from './store.ts'
import type { Uses } from './uses.ts'

export interface PackageServerOptions {
  /** The only network that is answered, as `10.1.2.0/24`. */
  subnet: string
  paths(): RegistryPaths
  /** What the registry does not have may be at the one that steps without the cache use. */
  mayBeElsewhere: boolean
  archive: ReturnType<typeof archives>
  document: ReturnType<typeof documents>
  list: ReturnType<typeof lists>
  counts: UseCounts
  uses: Uses
  /** Seconds for which a connection may be silent, and for which an answer may take. */
  clientSeconds?: { silent: number; answer: number }
}

const archiveParts = { offset: 0, head: { type: 'application/octet-stream' }, etag: null }

/** With one of these a request is somebody's, and its answer might be too. */
const personal = ['authorization', 'proxy-authorization', 'cookie', 'npm-otp'] as const

/** Answers build containers. A container is known by its address: each has the same limits, whatever other containers do. */
export function packageServer(options: PackageServerOptions): Server {
  const {
    subnet,
    paths,
    mayBeElsewhere,
    archive,
    document,
    list,
    counts,
    uses,
    clientSeconds = packageCacheRules.clientSeconds,
  } = options
  const { connectionsPerContainer, pathLength } = packageCacheRules
  const builds = new BlockList()
  const [network, bits] = subnet.split('/') as [string, string]
  builds.addSubnet(network, Number(bits))
  const connections = new Map<string, number>()
  const lines = new WeakMap<Socket, { address: string; requests: number; last: Promise<void> }>()

  /** For all, and for the step of the container: what another one has had is no reason to try a step again. */
  const count = (what: keyof UseCounts, address: string) => {
    counts[what]++
    uses.count(what, address)
  }

  const server = createServer({ maxHeaderSize: 16_384, keepAliveTimeout: 15_000, headersTimeout: 20_000 })
  server.maxRequestsPerSocket = 10_000
  const cutOff = (socket: Socket) => {
    if (lines.get(socket)?.requests) count('troubles', lines.get(socket)!.address)
    socket.destroy()
  }
  server.setTimeout(clientSeconds.silent * 1000, cutOff)
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    const open = connections.get(address) ?? 0
    // The bridge is no secret: other containers and machines may know a way to its address.
    const isBuild = builds.check(address)
    if (!isBuild || open >= connectionsPerContainer) {
      if (isBuild) count('troubles', address)
      return socket.destroy()
    }
    connections.set(address, open + 1)
    socket.once('close', () => {
      const left = connections.get(address)! - 1
      left > 0 ? connections.set(address, left) : connections.delete(address)
    })
  })

  async function answer(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const { method = '', url = '', headers, socket } = request
    const address = socket.remoteAddress ?? ''
    const refuse = (status: number, words: string) => {
      count('troubles', address)
      response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${words}\n`)
    }
    if (method !== 'GET' && method !== 'HEAD') return refuse(405, 'This cache answers GET and HEAD.')
    if (personal.some(name => headers[name] !== undefined))
      return refuse(403, 'This cache is for public packages: it takes no credentials.')
    const isPlain = /^\/[\x21-\x7e]*$/.test(url) && !/[?#\\]|\/\/|\/\.{1,2}(\/|$)|%2e|%5c/i.test(url)
    if (url.length > pathLength || !isPlain) return refuse(403, 'This cache does not serve this address.')
    if (url.startsWith(`${upPath}/`)) uses.arrive(url.slice(upPath.length + 1), address)
    if (url === upPath || url.startsWith(`${upPath}/`)) return void response.writeHead(204).end()
    const target = paths().parse(url, headers.accept ?? '')
    if (!target) return refuse(404, 'This cache does not serve this address.')
    const asker = { subject: address, signal }
    await send(await serve(target, asker, method === 'HEAD'), request, response, signal)
  }

  async function serve(target: Wanted, asker: Asker, isHead: boolean): Promise<Served> {
    switch (target.kind) {
      // To verify one only for its length would cost as much as to send it.
      case 'archive':
        return isHead ? { kind: 'elsewhere', url: target.archive.url } : archive(target.archive, asker)
      case 'list':
        return isHead ? { kind: 'elsewhere', url: target.url } : list(target.url, asker)
      case 'document':
        return document(target.document, asker)
    }
  }

  async function send(served: Served, request: IncomingMessage, response: ServerResponse, signal: AbortSignal) {
    const address = request.socket.remoteAddress ?? ''
    const isHead = request.method === 'HEAD'
    const plain = { 'content-type': 'text/plain' }
    switch (served.kind) {
      case 'elsewhere':
        count('passedOn', address)
        response.writeHead(307, { location: served.url }).end()
        return
      case 'status':
        if (mayBeElsewhere || !absent.includes(served.status)) count('troubles', address)
        response.writeHead(served.status, plain).end('The registry does not have it.\n')
        return
      case 'text':
        response.writeHead(200, { ...plain, 'content-length': Buffer.byteLength(served.text) })
        response.end(isHead ? '' : served.text)
        return
      case 'growing': {
        const { download } = served
        const length = download.size === null ? {} : { 'content-length': download.size }
        response.writeHead(200, { 'content-type': 'application/octet-stream', ...length })
        return pass(download.bytes(signal), response)
      }
    }
    const { stored } = served
    const { offset, head, etag } = served.kind === 'document' ? served : archiveParts
    try {
      if (etag !== null && request.headers['if-none-match'] === etag)
        return void response.writeHead(304, { etag }).end()
      const tag = etag === null ? {} : { etag }
      response.writeHead(200, { 'content-type': head.type, 'content-length': stored.bytes - offset, ...tag })
      if (isHead) response.end()
      else await pass(piecesOf(stored.file, offset), response)
    } finally {
      await stored.close()
    }
  }

  server.on('request', (request, response) => {
    const { socket } = request
    const address = socket.remoteAddress ?? ''
    count('requests', address)
    const line = lines.get(socket) ?? { address, requests: 0, last: Promise.resolve() }
    lines.set(socket, line)
    // A client sends the next one when it has an answer, which may be just before we know. More would pass the limit on connections.
    if (line.requests === 2) {
      count('troubles', address)
      return socket.destroy()
    }
    line.requests++
    const late = setTimeout(() => cutOff(socket), clientSeconds.answer * 1000)
    const closed = new AbortController()
    const leave = () => closed.abort()
    socket.once('close', leave)
    line.last = line.last
      .then(() => (socket.destroyed ? undefined : answer(request, response, closed.signal)))
      .catch(() => {
        if (closed.signal.aborted) return
        count('troubles', line.address)
        if (response.headersSent) response.destroy()
        else response.writeHead(503, { connection: 'close' }).end()
      })
      .finally(() => {
        clearTimeout(late)
        socket.off('close', leave)
        line.requests--
      })
  })
  return server
}

/** Sends all pieces, each once the one before has left. Rejects, and cuts the answer off, when they end early; a client that goes is no failure. */
async function pass(pieces: AsyncGenerator<Buffer>, response: ServerResponse): Promise<void> {
  const closed = new Promise<'gone'>(resolve => response.once('close', () => resolve('gone')))
  for await (const piece of pieces) {
    const sent = new Promise<'sent'>(resolve => response.write(piece, () => resolve('sent')))
    if (response.destroyed || (await Promise.race([sent, closed])) === 'gone') return
  }
  response.end()
}
