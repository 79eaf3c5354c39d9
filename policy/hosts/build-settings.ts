import { absolute, type Environment } from '../environment.ts'

/** Addresses of the proxies of build containers, for each protocol, and the names that go without; null = none. */
export interface BuildProxy {
  http: string | null
  https: string | null
  none: string | null
}

/** One fact about builds of a host, for people; `remedy` says what to do, null when all is well. */
export interface BuildFact {
  state: string
  remedy: string | null
}

/** A file with certificate authorities, and the setting that names it. */
export interface AuthorityFile {
  setting: string
  path: string
}

export interface BuildSettings {
  /** Null: builds use no proxy. */
  proxy: BuildProxy | null
  proxyFact: BuildFact
  /** Files whose authorities builds trust in addition to those of the system; null = the images' own authorities only. */
  authorities: readonly AuthorityFile[] | null
}

/** Where distributions store the authorities that their programs trust, as one file. The first is that of the machine around a host in a container. */
export const systemStores = [
  '/run/machine-certs/ca-certificates.crt',
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/var/lib/ca-certificates/ca-bundle.pem',
  '/etc/ssl/cert.pem',
] as const

/** What builds use to reach the network, from the settings of Berth or else from those of its own process. */
export function buildSettings(env: Environment, cwd: string): BuildSettings {
  const files =
    env.BUILD_CA_BUNDLE === undefined
      ? { NODE_EXTRA_CA_CERTS: env.NODE_EXTRA_CA_CERTS, SSL_CERT_FILE: env.SSL_CERT_FILE }
      : { BUILD_CA_BUNDLE: env.BUILD_CA_BUNDLE }
  const named = Object.entries(files).flatMap(([setting, path]) =>
    path === undefined ? [] : [{ setting, path: absolute(path, cwd) }],
  )
  return { ...proxySettings(env), authorities: env.BUILD_CA_BUNDLE === 'off' ? null : named }
}

const none = (state: string, remedy: string | null = null) => ({ proxy: null, proxyFact: { state, remedy } })

function proxySettings(env: Environment): Pick<BuildSettings, 'proxy' | 'proxyFact'> {
  if (env.BUILD_PROXY === 'off') return none('none: BUILD_PROXY is off')
  if (env.BUILD_PROXY !== undefined) {
    const url = withScheme(env.BUILD_PROXY)
    const fault = unusable(url)
    const fact = { state: `${shown(url)} (BUILD_PROXY)`, remedy: fault && `BUILD_PROXY ${fault}: ${correctIt}` }
    return { proxy: { http: url, https: url, none: null }, proxyFact: fact }
  }
  const own = [
    { setting: 'HTTPS_PROXY', url: env.HTTPS_PROXY ?? env.https_proxy },
    { setting: 'HTTP_PROXY', url: env.HTTP_PROXY ?? env.http_proxy },
  ].map(({ setting, url }) => ({ setting, url: url && withScheme(url) }))
  const faults = own.flatMap(({ setting, url }) => {
    const fault = url && (hasCredentials(url) ? readable : unusable(url))
    return fault ? [`${setting} ${fault}`] : []
  })
  const remedy = faults.length ? `${faults.join('; ')}: ${correctIt}` : null
  const usable = own.filter(({ url }) => url && !hasCredentials(url) && !unusable(url))
  if (usable.length === 0) return none('none', remedy)
  const urlOf = (name: string) => usable.find(({ setting }) => setting === name)?.url ?? null
  const urls = [...new Set(usable.map(({ url }) => url))]
  return {
    proxy: { https: urlOf('HTTPS_PROXY'), http: urlOf('HTTP_PROXY'), none: env.NO_PROXY ?? env.no_proxy ?? null },
    proxyFact: { state: `${urls.join(', ')} (${usable.map(({ setting }) => setting).join(', ')} of the host)`, remedy },
  }
}

const correctIt = 'set BUILD_PROXY to a proxy for builds, or to off'
/** Every customer's install step could read them. */
const readable = 'has credentials, which builds do not get'

/** Programs accept a proxy without its protocol. */
const withScheme = (url: string): string => (url.includes('://') ? url : `http://${url}`)

function hasCredentials(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { username, password } = new URL(url)
  return username !== '' || password !== ''
}

/** Why no container reaches a proxy, or null. */
function unusable(url: string): string | null {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return 'is no http or https address'
  const { hostname } = new URL(url)
  const isLoopback = /^(localhost|.*\.localhost|127(\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:7f.*\])$/.test(hostname)
  return isLoopback ? 'is an address of loopback, which no container reaches' : null
}

/** The address without its credentials, for people. */
function shown(url: string): string {
  if (!URL.canParse(url)) return 'an address that cannot be read'
  return hasCredentials(url) ? `${new URL(url).protocol}//...@${new URL(url).host}` : url
}
