import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isPublicAddress } from '../../lib/addresses.ts'
import { unlessAborted, withTimeout } from '../../lib/async/timeout.ts'
import { type GitAddress, hostAndPort, isOpened } from '../../policy/git/git-source.ts'
import { type HostProxies, type HostProxy, isNearProxy, proxyOf } from '../../policy/hosts/proxy-address.ts'
import { FetchRefused } from './port.ts'

/** The addresses of a name. Rejects when it has none. */
export type Resolve = (host: string) => Promise<string[]>

export const systemResolve: Resolve = async host => {
  const entries = await lookup(host, { all: true })
  return entries.map(({ address }) => address)
}

/** A server with its checked addresses; connections go only to these, whatever its name resolves to later. */
export interface PinnedServer extends GitAddress {
  /** None where a proxy resolves the name. */
  addresses: string[]
  /** Null = it is reached directly. */
  proxy: HostProxy | null
}

export interface PinOptions {
  allowedHosts: readonly string[]
  proxies: HostProxies
  resolve: Resolve
  /** How long a look-up may take where a proxy resolves the name as well. */
  lookupSeconds: number
}

/** Resolves a server once. Rejects with CLONE_FAILED when any of its addresses is not public and the operator did not allow it. */
export async function pin(
  server: GitAddress,
  { allowedHosts, proxies, resolve, lookupSeconds }: PinOptions,
  signal: AbortSignal,
): Promise<PinnedServer> {
  const opened = isOpened(server, allowedHosts)
  if (!opened && !isWebPort(server.port)) throw refused(server)
  // What an operator has opened is in their own network, which proxies to the internet do not lead to.
  const proxy = opened ? null : proxyOf(proxies, server)
  if (proxy) {
    if (isNearProxy(server, proxy)) throw refused(server)
    const known = isIP(server.host) ? [server.host] : await resolvedHere(server.host, resolve, lookupSeconds, signal)
    if (!known.every(isPublicAddress)) throw refused(server)
    return { ...server, addresses: [], proxy }
  }
  const addresses = isIP(server.host) ? [server.host] : await unlessAborted(resolve(server.host), signal)
  if (addresses.length === 0) throw new Error(`The git server ${server.host} has no address.`)
  if (!opened && !addresses.every(isPublicAddress)) throw refused(server)
  return { ...server, addresses, proxy: null }
}

/** The addresses that a name has here, for a check before the proxy gets it; none if the name service of this machine knows none. */
async function resolvedHere(host: string, resolve: Resolve, seconds: number, signal: AbortSignal): Promise<string[]> {
  const late = () => new Error('the name service does not answer')
  try {
    return await unlessAborted(withTimeout(resolve(host), seconds * 1000, late), signal)
  } catch (error) {
    signal.throwIfAborted()
    if (isWithoutAddress(error)) return []
    // The name may be one of a private network: nobody knows until the name service answers.
    throw new Error(`The name of the git server ${host} could not be looked up: ${(error as Error).message}.`, {
      cause: error,
    })
  }
}

/** EAI_AGAIN comes at once from a machine without a name service, or with one that serves no names of the internet. */
const isWithoutAddress = (error: unknown) =>
  ['ENOTFOUND', 'ENODATA', 'EAI_AGAIN'].includes((error as NodeJS.ErrnoException).code ?? '')

/** Ports below 1024 belong to other services, except those of web servers. */
const isWebPort = (port: number) => port === 80 || port === 443 || port >= 1024

function refused(server: GitAddress): FetchRefused {
  return new FetchRefused(
    'CLONE_FAILED',
    `The git server ${hostAndPort(server)} is not on the public network. The platform's operator can allow it (GIT_ALLOWED_HOSTS).`,
  )
}
