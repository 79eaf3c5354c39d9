import type { Environment } from '../environment.ts'
import type { BuildFact } from '../hosts/build-settings.ts'
import { type HostProxy, hostProxy, isWithoutProxy, shown, withScheme } from '../hosts/proxy-address.ts'
import type { GitAddress } from './git-source.ts'

/** The proxies of fetches for https and http addresses; null = fetches go directly. */
export interface GitProxies {
  https: HostProxy | null
  http: HostProxy | null
  /** NO_PROXY: the servers that are fetched from directly. */
  none: string
}

export interface GitProxySettings {
  proxies: GitProxies
  /** For people, without credentials. */
  fact: BuildFact
}

const correctIt = 'correct it, or set GIT_PROXY to a proxy for fetches, or to off'
const unreadable =
  'is no http or https address with a port only (in a password, write % and its code for / ? # % and \\)'

/** The proxies with which fetches reach git servers, from GIT_PROXY or else from the environment of the process. */
export function gitProxySettings(env: Environment): GitProxySettings {
  const none = env.NO_PROXY ?? env.no_proxy ?? ''
  if (env.GIT_PROXY === 'off')
    return { proxies: { ...direct, none }, fact: { state: 'none: GIT_PROXY is off', remedy: null } }
  if (env.GIT_PROXY !== undefined) {
    const proxy = hostProxy(env.GIT_PROXY)
    // It may contain a password.
    if (proxy === null) throw new Error(`The setting GIT_PROXY ${unreadable}; it must be one, or off.`)
    const state = `${shown(withScheme(env.GIT_PROXY))} (GIT_PROXY)`
    return { proxies: { https: proxy, http: proxy, none }, fact: { state, remedy: null } }
  }
  const own = [
    { setting: 'HTTPS_PROXY', text: env.HTTPS_PROXY ?? env.https_proxy },
    { setting: 'HTTP_PROXY', text: env.HTTP_PROXY ?? env.http_proxy },
  ].flatMap(({ setting, text }) => (text ? [{ setting, text, proxy: hostProxy(text) }] : []))
  const of = (name: string) => own.find(({ setting }) => setting === name)?.proxy ?? null
  const used = own.flatMap(({ setting, text, proxy }) =>
    proxy ? [`${shown(withScheme(text))} (${setting} of the host)`] : [],
  )
  const faults = own.flatMap(({ setting, proxy }) => (proxy ? [] : [setting]))
  const remedy = faults.length > 0 ? `${faults.join(', ')} ${unreadable}: ${correctIt}` : null
  return {
    proxies: { https: of('HTTPS_PROXY'), http: of('HTTP_PROXY'), none },
    fact: { state: used.join(', ') || 'none', remedy },
  }
}

const direct = { https: null, http: null }

/** No proxy for any fetch. */
export const noGitProxies: GitProxies = { ...direct, none: '' }

/** The proxy through which a server is fetched from, unless the operator has named it among those that go without. */
export function proxyOf(proxies: GitProxies, server: GitAddress): HostProxy | null {
  const proxy = server.secure ? proxies.https : proxies.http
  return proxy && !isWithoutProxy(proxies.none, server) ? proxy : null
}

/**
 * Whether a proxy may never be asked for a server, whatever its name service says: names of this machine and of private networks, names
 * without a dot, which a proxy may complete to one in its own network, and the proxy itself.
 */
export function isNearProxy(server: GitAddress, proxy: HostProxy): boolean {
  const isName = !server.host.includes(':')
  if (isName && (!server.host.includes('.') || /\.(localhost|local|internal|home\.arpa)$/.test(server.host)))
    return true
  return server.port === proxy.port && server.host === proxy.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
}
