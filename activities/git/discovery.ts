import * as http from 'node:http'
import * as https from 'node:https'
import type { TLSSocket } from 'node:tls'
import { pinnedLookup } from '../../lib/addresses.ts'
import { gitAddress, hostAndPort, mayKeepToken, tokenUser } from '../../policy/git/git-source.ts'
import { type PinnedServer, type PinOptions, pin } from './address.ts'
import { FetchRefused, type FetchRequest } from './port.ts'
import {
  credentialsWanted,
  limitAnswer,
  openTunnel,
  ProxyFailed,
  proxyHeaders,
  requestOf,
  type TunnelOptions,
  toProxy,
} from './tunnel.ts'

/** Where a repository was found, and the token if it may be used there. */
export interface DiscoveredRepository extends PinnedServer {
  token: string | null
}

export interface DiscoveryOptions extends Omit<PinOptions, 'allowedHosts'>, Omit<TunnelOptions, 'signal'> {
  /** How long a server that accepted the connection may take to start TLS. */
  handshakeSeconds: number
}

const maxHops = 5
const discoveryPath = '/info/refs?service=git-upload-pack'
const advertisement = 'application/x-git-upload-pack-advertisement'

/**
 * Requests the repository from the server before git does, because git would follow redirects on its own: here every hop is resolved
 * and checked. Rejects with `FetchRefused`, also where https is not https, or with a transient Error (no connection, 5xx).
 */
export async function findRepository(
  request: FetchRequest,
  { resolve, proxies, lookupSeconds, ...connections }: DiscoveryOptions,
  signal: AbortSignal,
): Promise<DiscoveredRepository> {
  const start = gitAddress(request.url)
  if (!start)
    throw new FetchRefused('CLONE_FAILED', 'The clone address is not an http or https address of a git server.')
  const pinOptions = { allowedHosts: request.allowedHosts, proxies, resolve, lookupSeconds }
  const connection = { ...connections, signal }
  let address = start
  for (let hop = 0; hop <= maxHops; hop++) {
    const server = await pin(address, pinOptions, signal)
    const token = mayKeepToken(start, server) ? request.token : null
    let answer = await sendRequest(server, null, connection)
    if (answer.status === 401 && token !== null) answer = await sendRequest(server, token, connection)
    if (answer.status < 300 || answer.status >= 400) {
      checkAnswer(answer, server, token)
      return { ...server, token }
    }
    address = repositoryAt(answer.location, server)
  }
  throw new FetchRefused('CLONE_FAILED', 'The git server redirects too often.')
}

interface Answer {
  status: number
  type: string
  location: string
}

interface ConnectionOptions extends TunnelOptions {
  handshakeSeconds: number
}

/** Returns the head of the server's answer without reading the body. */
async function sendRequest(server: PinnedServer, token: string | null, options: ConnectionOptions): Promise<Answer> {
  const { proxy } = server
  const tunnel = proxy && server.secure ? await openTunnel(server, proxy, options) : null
  return new Promise((resolve, reject) => {
    const request = open(server, token, tunnel, options)
    if (tunnel) limitHandshake(tunnel, options.handshakeSeconds, noTls(server))
    else if (server.secure)
      request.once('socket', socket =>
        socket.once('connect', () => limitHandshake(socket as TLSSocket, options.handshakeSeconds, noTls(server))),
      )
    if (proxy && !tunnel) limitAnswer(request, options.proxySeconds)
    request.once('error', error =>
      reject(options.signal.aborted ? options.signal.reason : unreachable(server, error, tunnel !== null)),
    )
    request.once('response', answer => {
      const { 'content-type': type = '', location = '' } = answer.headers
      resolve({ status: answer.statusCode ?? 0, type: type.split(';')[0]!.trim(), location })
      request.destroy()
    })
    request.end()
  })
}

/** A request for the repository: through the tunnel, from a proxy by its whole address, or at the checked addresses. */
function open(
  server: PinnedServer,
  token: string | null,
  tunnel: TLSSocket | null,
  options: ConnectionOptions,
): http.ClientRequest {
  const { trust, signal } = options
  const url = server.url + discoveryPath
  const password = token === null ? {} : { authorization: `Basic ${basic(tokenUser(server), token)}` }
  const headers = { 'user-agent': 'git/2 (berth)', accept: '*/*', 'git-protocol': 'version=2', ...password }
  if (tunnel) return https.request(url, { createConnection: () => tunnel, headers, signal })
  if (server.proxy) {
    const ofProxy = { host: new URL(url).host, ...proxyHeaders(server.proxy) }
    return requestOf(server.proxy)({
      ...toProxy(server.proxy, options),
      path: url,
      headers: { ...headers, ...ofProxy },
    })
  }
  const secure = trust && server.secure ? { secureContext: trust } : {}
  const { request } = server.secure ? https : http
  return request(url, { agent: false, lookup: pinnedLookup(server.addresses), headers, ...secure, signal })
}

function checkAnswer({ status, type }: Answer, server: PinnedServer, token: string | null): void {
  // In a tunnel, the git server is the one that answers.
  if (status === 407 && server.proxy && !server.secure) throw new ProxyFailed(server, server.proxy, credentialsWanted)
  if (status === 401 || status === 403)
    throw new FetchRefused(
      'AUTHENTICATION_REQUIRED',
      token === null
        ? `${hostAndPort(server)} requires an access token (HTTP ${status}).`
        : `${hostAndPort(server)} refused the access token (HTTP ${status}).`,
    )
  if (status >= 500 || status === 429 || status === 408)
    throw new Error(`The git server ${hostAndPort(server)} answered HTTP ${status}.`)
  if (status === 404 || status === 410)
    throw new FetchRefused(
      'CLONE_FAILED',
      `${hostAndPort(server)} has no such repository, or hides it from this token.`,
    )
  if (status !== 200 || type !== advertisement)
    throw new FetchRefused('CLONE_FAILED', `${hostAndPort(server)} does not answer as a git server (HTTP ${status}).`)
}

/** The repository that a redirect names; a login page is none. Never from https to http. */
function repositoryAt(location: string, from: PinnedServer) {
  const target = URL.canParse(location, from.url + discoveryPath)
    ? new URL(location, from.url + discoveryPath).href
    : ''
  const address = target.endsWith(discoveryPath) ? gitAddress(target.slice(0, -discoveryPath.length)) : null
  // With plain http, anyone on the network path could replace the files.
  if (!address || (from.secure && !address.secure))
    throw new FetchRefused('CLONE_FAILED', `${hostAndPort(from)} redirects to something that is not a repository.`)
  return address
}

/** A server that accepts the connection but does not answer the TLS hello most likely waits for a line of plain http. */
function limitHandshake(socket: TLSSocket, seconds: number, refusal: FetchRefused): void {
  const timer = setTimeout(() => socket.destroy(refusal), seconds * 1000)
  for (const end of ['secureConnect', 'close']) socket.once(end, () => clearTimeout(timer))
}

/** Whether the answer to the TLS hello was not TLS. */
const isPlain = (error: Error): boolean =>
  /^(ERR_SSL_|EPROTO$)/.test((error as NodeJS.ErrnoException).code ?? '') &&
  /wrong version number|packet length too long|http request/i.test(error.message)

const noTls = (server: PinnedServer): FetchRefused =>
  new FetchRefused(
    'CLONE_FAILED',
    `The clone address says https, but ${hostAndPort(server)} does not speak it. If it speaks plain http, the address must start with http://.`,
  )

function unreachable(server: PinnedServer, error: Error, hasTunnel: boolean): Error {
  if (error instanceof FetchRefused) return error
  if (server.proxy && !hasTunnel) return new ProxyFailed(server, server.proxy, error.message)
  if (isPlain(error)) return noTls(server)
  return new Error(`The git server ${hostAndPort(server)} could not be reached: ${error.message}`, { cause: error })
}

const basic = (user: string, password: string) => Buffer.from(`${user}:${password}`).toString('base64')
