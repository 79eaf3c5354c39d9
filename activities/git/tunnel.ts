import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import type { SecureContext } from 'node:tls'
import { connect, type TLSSocket } from 'node:tls'
import { unbracketed } from '../../lib/addresses.ts'
import { type GitAddress, hostAndPort } from '../../policy/git/git-source.ts'
import { addressOf, type HostProxy, proxyAuthorization } from '../../policy/hosts/proxy-address.ts'
import { FetchRefused } from './port.ts'

/** A proxy that did not do its part. Customers get the message, which says nothing about it; operators get `because`. */
export class ProxyFailed extends Error {
  override name = 'ProxyFailed'
  /** Its address without credentials. */
  readonly proxy: string
  constructor(
    server: GitAddress,
    proxy: HostProxy,
    readonly because: string,
  ) {
    super(`The git server ${hostAndPort(server)} could not be reached from this platform.`)
    this.proxy = addressOf(proxy)
  }
}

export interface TunnelOptions {
  /** What connections to https trust; null = the authorities of Node. */
  trust: SecureContext | null
  /** How long a proxy may take to answer. */
  proxySeconds: number
  signal: AbortSignal
}

/** Options of a request that is sent to a proxy. */
export function toProxy(
  proxy: HostProxy,
  { trust, signal }: Pick<TunnelOptions, 'trust' | 'signal'>,
): https.RequestOptions {
  const { protocol, hostname, port } = proxy
  const host = unbracketed(hostname)
  // Node would check the name in the header, which is that of the git server.
  const servername = isIP(host) ? '' : host
  return { protocol, host, port, servername, agent: false, signal, ...(trust && { secureContext: trust }) }
}

/** The header with the credentials of a proxy, if it has any. It alone gets them. */
export function proxyHeaders(proxy: HostProxy): Record<string, string> {
  const authorization = proxyAuthorization(proxy)
  return authorization === null ? {} : { 'proxy-authorization': authorization }
}

/** Ends a request to a proxy that neither accepts the connection nor answers. */
export function limitAnswer(request: http.ClientRequest, seconds: number): void {
  const timer = setTimeout(() => request.destroy(new Error('it does not answer')), seconds * 1000)
  for (const end of ['connect', 'response', 'close']) request.once(end, () => clearTimeout(timer))
}

/** Sends requests by the protocol in which the proxy itself is spoken to. */
export const requestOf = (proxy: HostProxy): typeof http.request =>
  proxy.protocol === 'https:' ? https.request : http.request

/** A TLS connection to a server through a proxy, which gets its name and resolves it. Handshake and certificate are not awaited. */
export function openTunnel(server: GitAddress, proxy: HostProxy, options: TunnelOptions): Promise<TLSSocket> {
  const { trust, signal } = options
  const path = hostAndPort(server)
  return new Promise((resolve, reject) => {
    const request = requestOf(proxy)({
      ...toProxy(proxy, options),
      method: 'CONNECT',
      path,
      headers: { host: path, 'user-agent': 'git/2 (berth)', ...proxyHeaders(proxy) },
    })
    request.once('error', error =>
      reject(signal.aborted ? signal.reason : new ProxyFailed(server, proxy, error.message)),
    )
    request.once('connect', ({ statusCode = 0 }, socket, head) => {
      if (statusCode < 200 || statusCode >= 300) {
        socket.destroy()
        return reject(proxyRefusal(statusCode, server, proxy))
      }
      if (head.length > 0) socket.unshift(head)
      const { host } = server
      const name = isIP(host) ? {} : { servername: host }
      resolve(connect({ socket, host, ...name, ...(trust && { secureContext: trust }) }))
    })
    limitAnswer(request, options.proxySeconds)
    request.end()
  })
}

/** The error for a status with which a proxy refuses a connection. */
export function proxyRefusal(status: number, server: GitAddress, proxy: HostProxy): Error {
  if (status === 407) return new ProxyFailed(server, proxy, credentialsWanted)
  if (status !== 403) return new ProxyFailed(server, proxy, `it answered HTTP ${status}`)
  return new FetchRefused(
    'CLONE_FAILED',
    `The network of this platform does not permit connections to ${hostAndPort(server)}. The platform's operator can change that.`,
  )
}

/** Why a proxy answers HTTP 407. */
export const credentialsWanted = 'it demands other credentials than GIT_PROXY, HTTPS_PROXY or HTTP_PROXY has (HTTP 407)'
