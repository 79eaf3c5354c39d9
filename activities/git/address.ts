import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isPublicAddress } from '../../lib/addresses.ts'
import { unlessAborted } from '../../lib/async/timeout.ts'
import { type GitAddress, hostAndPort, isOpened } from '../../policy/git/git-source.ts'
import { FetchRefused } from './port.ts'

/** The addresses of a name. Rejects when it has none. */
export type Resolve = (host: string) => Promise<string[]>

export const systemResolve: Resolve = async host => {
  const entries = await lookup(host, { all: true })
  return entries.map(({ address }) => address)
}

/** A server with its checked addresses; connections go only to these, whatever its name resolves to later. */
export interface PinnedServer extends GitAddress {
  addresses: string[]
}

/** Resolves a server once. Rejects with CLONE_FAILED when any of its addresses is not public and the operator did not allow it. */
export async function pin(
  server: GitAddress,
  allowedHosts: readonly string[],
  resolve: Resolve,
  signal: AbortSignal,
): Promise<PinnedServer> {
  const opened = isOpened(server, allowedHosts)
  if (!opened && !isWebPort(server.port)) throw refused(server)
  const addresses = isIP(server.host) ? [server.host] : await unlessAborted(resolve(server.host), signal)
  if (addresses.length === 0) throw new Error(`The git server ${server.host} has no address.`)
  if (!opened && !addresses.every(isPublicAddress)) throw refused(server)
  return { ...server, addresses }
}

/** Ports below 1024 belong to other services, except those of web servers. */
const isWebPort = (port: number) => port === 80 || port === 443 || port >= 1024

function refused(server: GitAddress): FetchRefused {
  return new FetchRefused(
    'CLONE_FAILED',
    `The git server ${hostAndPort(server)} is not on the public network. The platform's operator can allow it (GIT_ALLOWED_HOSTS).`,
  )
}
