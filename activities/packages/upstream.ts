import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { type Dispatcher, request } from 'undici'
import { isClosedAddress, isPublicAddress } from '../../lib/addresses.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import {
  type HostProxies,
  type HostProxy,
  hostProxy,
  isNearProxy,
  noProxies,
  proxyOf,
  serverOf,
  unreadableProxy,
} from '../../policy/hosts/proxy-address.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import type { PackageNetwork } from './job.ts'
import { type ProxiedDispatcher, proxiedDispatcher } from './proxies.ts'

export interface UpstreamAnswer {
  status: number
  header(name: string): string | null
  /** Where it came from, after redirects. */
  url: string
  body: Dispatcher.ResponseData['body']
}

export type GetUpstream = (url: string, headers: Record<string, string>, signal: AbortSignal) => Promise<UpstreamAnswer>

/** An address that the cache does not ask. */
class NotAsked extends Error {
  override name = 'NotAsked'
}

/**
 * Requests of registries, by the proxy of the host and with the authorities of builds, without any header of a step. `privateOrigins`
 * are those that operators have set: only these may have addresses that are not public, or names of private networks behind a proxy.
 * Redirects lead from https to https only.
 */
export function upstreams(
  network: PackageNetwork,
  privateOrigins: ReadonlySet<string>,
): { get: GetUpstream; close(): void } {
  const { connect, silent } = packageCacheRules.upstreamSeconds
  const ca = network.authorities ?? undefined
  const proxies = proxiesOf(network)
  function dispatcherWith(lookup?: LookupFunction): ProxiedDispatcher {
    const options = {
      connect: { ca, timeout: connect * 1000, ...(lookup && { lookup }) },
      headersTimeout: silent * 1000,
      bodyTimeout: silent * 1000,
      keepAliveTimeout: 4000,
    }
    return proxiedDispatcher(proxies ?? noProxies, options, ca)
  }
  const toPublic = dispatcherWith(publicLookup)
  const toNamed = dispatcherWith()

  /** Whether an operator has named the registry at an address. Throws `NotAsked` for one that the cache does not ask. */
  function isNamed(target: URL): boolean {
    if (proxies === null) throw new NotAsked(`The proxy for packages ${unreadableProxy}.`)
    if (privateOrigins.has(target.origin)) return true
    const { hostname } = target
    if (isClosedAddress(hostname)) throw new NotAsked(`${hostname} is no public address.`)
    const proxy = proxyOf(proxies, serverOf(target))
    if (proxy && isNearProxy(serverOf(target), proxy))
      throw new NotAsked(`${hostname} is a name of a private network, or the proxy itself.`)
    return false
  }

  async function get(start: string, headers: Record<string, string>, signal: AbortSignal): Promise<UpstreamAnswer> {
    let url = start
    for (let redirects = 0; redirects <= packageCacheRules.redirects; redirects++) {
      const { dispatcher } = isNamed(new URL(url)) ? toNamed : toPublic
      const answer = await request(url, { dispatcher, headers: { 'user-agent': 'berth', ...headers }, signal })
      const { location } = answer.headers
      if (![301, 302, 303, 307, 308].includes(answer.statusCode) || typeof location !== 'string') {
        const header = (name: string) => [answer.headers[name] ?? []].flat()[0] ?? null
        return { status: answer.statusCode, header, url, body: answer.body }
      }
      await answer.body.dump().catch(ignoreError('only its head counts'))
      const next = URL.canParse(location, url) ? new URL(location, url) : null
      const isSafe = next && !next.username && !next.password
      if (!isSafe || !(next.protocol === 'https:' || (next.protocol === 'http:' && url.startsWith('http:'))))
        throw new NotAsked(`${new URL(url).host} redirects to an address that is not followed.`)
      url = next.href
    }
    throw new NotAsked(`${new URL(start).host} redirects too often.`)
  }

  const close = () => {
    for (const one of [toPublic, toNamed]) one.close().catch(ignoreError('its connections end by themselves'))
  }
  return { get, close }
}

/** Closes an answer of which nothing more is read. Otherwise its connection stays open. */
export function closeAnswer({ body }: UpstreamAnswer): void {
  body.on('error', ignoreError('it is not wanted any more')).destroy()
}

/** The proxies of the cache; null if one cannot be read, because an operator who names a proxy does not mean the direct way. */
function proxiesOf({ proxy }: PackageNetwork): HostProxies | null {
  if (!proxy) return noProxies
  const read: (HostProxy | null)[] = []
  for (const text of [proxy.https, proxy.http]) {
    const one = text === null ? null : hostProxy(text)
    if (text !== null && one === null) return null
    read.push(one)
  }
  const [https = null, http = null] = read
  return { https, http, none: proxy.none ?? '' }
}

/** Resolves names to their public addresses only. */
const publicLookup: LookupFunction = (name, { all, family }, callback) => {
  lookup(name, { all: true, family: family ?? 0 }, (error, addresses) => {
    if (error) return callback(error, '')
    const open = addresses.filter(({ address }) => isPublicAddress(address))
    if (open.length === 0) return callback(new NotAsked(`${name} has no public address.`), '')
    if (all) callback(null, open)
    else callback(null, open[0]!.address, open[0]!.family)
  })
}
