import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Agent, type Dispatcher, EnvHttpProxyAgent, request } from 'undici'
import { isClosedAddress, isPublicAddress } from '../../lib/addresses.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import type { PackageNetwork } from './job.ts'

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
 * Requests of registries, by the proxy of the host and with the authorities of builds, without any header of a step. `privateOrigins` are those that
 * operators have set: only these may have addresses that are not public. Redirects lead from https to https only.
 */
export function upstreams(
  network: PackageNetwork,
  privateOrigins: ReadonlySet<string>,
): { get: GetUpstream; close(): void } {
  const { connect, silent } = packageCacheRules.upstreamSeconds
  const ca = network.authorities ?? undefined
  const { proxy } = network
  function dispatcherWith(lookup?: LookupFunction): Dispatcher {
    const options = {
      connect: { ca, timeout: connect * 1000, ...(lookup && { lookup }) },
      headersTimeout: silent * 1000,
      bodyTimeout: silent * 1000,
      keepAliveTimeout: 4000,
    }
    if (!proxy) return new Agent(options)
    return new EnvHttpProxyAgent({
      ...options,
      ...(proxy.http && { httpProxy: proxy.http }),
      ...(proxy.https && { httpsProxy: proxy.https }),
      noProxy: proxy.none ?? '',
      requestTls: { ca },
      proxyTls: { ca },
    })
  }
  const toPublic = dispatcherWith(publicLookup)
  const toNamed = dispatcherWith()

  async function get(start: string, headers: Record<string, string>, signal: AbortSignal): Promise<UpstreamAnswer> {
    let url = start
    for (let redirects = 0; redirects <= packageCacheRules.redirects; redirects++) {
      const { hostname, origin } = new URL(url)
      const isNamed = privateOrigins.has(origin)
      if (isClosedAddress(hostname) && !isNamed) throw new NotAsked(`${hostname} is no public address.`)
      const dispatcher = isNamed ? toNamed : toPublic
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
