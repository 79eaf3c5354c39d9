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

/**
 * Whether NO_PROXY names a server: by its name, a name above it, its address, or `*`, each with or without a port. Ranges of addresses name
 * none, as in the cache of packages.
 */
export function isWithoutProxy(none: string, { host, port }: { host: string; port: number }): boolean {
  return none
    .toLowerCase()
    .split(/[,\s]+/)
    .some(entry => {
      const [, named = '', ofPort] = /^(\[[^\]]*\]|[^:]*|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? []
      const name = named.replace(/^\[(.*)\]$/, '$1').replace(/^\*?\./, '')
      if (name === '' || (ofPort !== undefined && Number(ofPort) !== port)) return false
      return name === '*' || host === name || host.endsWith(`.${name}`)
    })
}
