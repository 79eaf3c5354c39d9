import { unbracketed } from '../../lib/addresses.ts'
import type { Environment } from '../environment.ts'

/** Programs accept a proxy without its protocol. */
export const withScheme = (url: string): string => (url.includes('://') ? url : `http://${url}`)

/** An unescaped # / ? or \ in a password ends the address before its @, so any @ counts. */
export const hasCredentials = (url: string): boolean => url.includes('@')

export interface ProxyEndpoint {
  protocol: 'http:' | 'https:'
  hostname: string
  port: number
}

/** Where a proxy listens; null for an address that has more than that and credentials, which programs read in different ways. */
export function proxyEndpoint(url: string): ProxyEndpoint | null {
  if (!/^https?:\/\/[\x21-\x7e]+$/i.test(url) || /[/?#\\]./.test(url.slice(url.indexOf('://') + 3))) return null
  if (/[?#\\]$/.test(url) || !URL.canParse(url)) return null
  const { protocol, hostname, port } = new URL(url)
  if (protocol !== 'http:' && protocol !== 'https:') return null
  return { protocol, hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) }
}

/** With its port, because programs differ in the one that they use without. */
export const addressOf = ({ protocol, hostname, port }: ProxyEndpoint): string => `${protocol}//${hostname}:${port}`

/** The address without its credentials, for people. */
export function shown(url: string): string {
  const endpoint = proxyEndpoint(url)
  if (endpoint === null) return 'an address that cannot be read'
  const { protocol, hostname, port } = endpoint
  return hasCredentials(url) ? `${protocol}//...@${hostname}:${port}` : addressOf(endpoint)
}

/** A proxy as processes of the host itself use it: other than builds, they may have its credentials, and reach it on loopback. */
export interface HostProxy extends ProxyEndpoint {
  /** Decoded; null = the proxy demands none. */
  credentials: { user: string; password: string } | null
}

/** Null for an address or credentials that programs read in different ways, or that no header can carry. */
export function hostProxy(text: string): HostProxy | null {
  const url = withScheme(text)
  const endpoint = proxyEndpoint(url)
  if (endpoint === null) return null
  const { username, password } = new URL(url)
  if (!username && !password) return { ...endpoint, credentials: null }
  try {
    const credentials = { user: decodeURIComponent(username), password: decodeURIComponent(password) }
    const isPlain = !/[\u0000-\u001f\u007f]/.test(credentials.user + credentials.password)
    return isPlain && !credentials.user.includes(':') ? { ...endpoint, credentials } : null
  } catch {
    return null
  }
}

/** The whole address with its credentials, for a program on the host. */
export function wholeAddress(proxy: HostProxy): string {
  if (proxy.credentials === null) return addressOf(proxy)
  const { user, password } = proxy.credentials
  const { protocol, hostname, port } = proxy
  return `${protocol}//${encodeURIComponent(user)}:${encodeURIComponent(password)}@${hostname}:${port}`
}

/** The header with which a proxy gets its credentials, also without a password; null = it demands none. */
export function proxyAuthorization({ credentials }: HostProxy): string | null {
  if (credentials === null) return null
  return `Basic ${Buffer.from(`${credentials.user}:${credentials.password}`).toString('base64')}`
}

/** The proxies of the host's processes for https and http addresses; null = they are reached directly. None stands in for the other. */
export interface HostProxies {
  https: HostProxy | null
  http: HostProxy | null
  /** NO_PROXY: the servers that are reached directly. */
  none: string
}

/** Every server is reached directly. */
export const noProxies: HostProxies = { https: null, http: null, none: '' }

/** What is wrong with an address that is not used as a proxy. */
export const unreadableProxy =
  'is no http or https address with a port only (in a password, write % and its code for / ? # % and \\)'

/** The variables that name proxies, in either case, and their addresses with a protocol. */
export const namedProxies = (env: Environment): { setting: string; url: string }[] =>
  [
    { setting: 'HTTPS_PROXY', text: env.HTTPS_PROXY ?? env.https_proxy },
    { setting: 'HTTP_PROXY', text: env.HTTP_PROXY ?? env.http_proxy },
  ].flatMap(({ setting, text }) => (text ? [{ setting, url: withScheme(text) }] : []))

/** The proxies that the environment names, for people, and the variables that cannot be read. */
export function environmentProxies(env: Environment): { proxies: HostProxies; used: string[]; faults: string[] } {
  const named = namedProxies(env).map(({ setting, url }) => ({ setting, url, proxy: hostProxy(url) }))
  const of = (name: string) => named.find(({ setting }) => setting === name)?.proxy ?? null
  return {
    proxies: { https: of('HTTPS_PROXY'), http: of('HTTP_PROXY'), none: env.NO_PROXY ?? env.no_proxy ?? '' },
    used: named.flatMap(({ setting, url, proxy }) => (proxy ? [`${shown(url)} (${setting} of the host)`] : [])),
    faults: named.flatMap(({ setting, proxy }) => (proxy ? [] : [setting])),
  }
}

/** A server that may be reached through a proxy. */
interface ProxiedServer {
  /** Lower case, no dot at the end; IPv6 without brackets. */
  host: string
  port: number
  secure: boolean
}

const plainHost = (hostname: string) => unbracketed(hostname).replace(/\.$/, '')

/** The server of an http or https address. */
export function serverOf({ hostname, port, protocol }: URL): ProxiedServer {
  const secure = protocol === 'https:'
  return { host: plainHost(hostname), port: Number(port) || (secure ? 443 : 80), secure }
}

/** The proxy through which a server is reached, unless the operator has named it among those that go without. */
export function proxyOf(proxies: HostProxies, server: ProxiedServer): HostProxy | null {
  const proxy = server.secure ? proxies.https : proxies.http
  return proxy && !isWithoutProxy(proxies.none, server) ? proxy : null
}

/** Zones of this machine and of private networks: those that are reserved for it, and those that companies use all the same. */
const nearZones = /\.(localhost|localdomain[46]?|local|internal|lan|intranet|corp|home|private|home\.arpa)$/

/**
 * Whether a proxy may never be asked for a server, whatever its name service says: names of this machine and of private networks, names
 * without a dot, which a proxy may complete to one in its own network, and the proxy itself.
 */
export function isNearProxy({ host, port }: ProxiedServer, proxy: HostProxy): boolean {
  const isName = !host.includes(':')
  if (isName && (!host.includes('.') || nearZones.test(host))) return true
  return port === proxy.port && host === plainHost(proxy.hostname)
}

/**
 * Whether NO_PROXY names a server: by its name, a name above it, its address, or `*`, each with or without a port. Ranges of addresses name
 * none.
 */
export function isWithoutProxy(none: string, { host, port }: Pick<ProxiedServer, 'host' | 'port'>): boolean {
  return none
    .toLowerCase()
    .split(/[,\s]+/)
    .some(entry => {
      const [, named = '', ofPort] = /^(\[[^\]]*\]|[^:]*|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? []
      const name = unbracketed(named).replace(/^\*?\./, '')
      if (name === '' || (ofPort !== undefined && Number(ofPort) !== port)) return false
      return name === '*' || host === name || host.endsWith(`.${name}`)
    })
}
