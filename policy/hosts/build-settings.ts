import { absolute, type Environment } from '../environment.ts'
import {
  addressOf,
  hasCredentials,
  hostProxy,
  namedProxies,
  proxyEndpoint,
  shown,
  wholeAddress,
  withScheme,
} from './proxy-address.ts'

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
  /** What the cache of packages uses: a process of the host, so it may have credentials, and reach loopback. It never enters a container. */
  cacheProxy: BuildProxy | null
  /** Whether BUILD_PROXY names the proxy, rather than the environment of the service: an operator who sets it means it. */
  isOwnProxy: boolean
  /** Files whose authorities builds trust in addition to those of the system; null = the images' own authorities only. */
  authorities: readonly AuthorityFile[] | null
}

/** Where distributions store the authorities that their programs trust, as one file. The first three are those of the machine around a host in a container. */
export const systemStores = [
  '/run/machine-certs/ca-certificates.crt',
  '/run/machine-certs/tls-ca-bundle.pem',
  '/run/machine-certs/ca-bundle.pem',
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

type ProxySettings = Pick<BuildSettings, 'proxy' | 'proxyFact' | 'cacheProxy' | 'isOwnProxy'>

const none = (state: string, remedy: string | null = null): ProxySettings => ({
  proxy: null,
  proxyFact: { state, remedy },
  cacheProxy: null,
  isOwnProxy: false,
})

function proxySettings(env: Environment): ProxySettings {
  if (env.BUILD_PROXY === 'off') return none('none: BUILD_PROXY is off')
  if (env.BUILD_PROXY !== undefined) {
    const url = withScheme(env.BUILD_PROXY)
    const fault = unusable(url)
    const fact = { state: `${shown(url)} (BUILD_PROXY)`, remedy: fault && `BUILD_PROXY ${fault}: ${correctIt}` }
    const proxy = { http: url, https: url, none: null }
    return { proxy, proxyFact: fact, cacheProxy: proxy, isOwnProxy: true }
  }
  const own = namedProxies(env)
  const faults = own.flatMap(({ setting, url }) => {
    const fault = hasCredentials(url) ? readable : unusable(url)
    return fault ? [`${setting} ${fault}`] : []
  })
  const remedy = faults.length ? `${faults.join('; ')}: ${correctIt}` : null
  const usable = own.flatMap(({ setting, url }) => {
    const endpoint = hasCredentials(url) || unusable(url) ? null : proxyEndpoint(url)
    return endpoint ? [{ setting, url: addressOf(endpoint) }] : []
  })
  const ofHost = own.flatMap(({ setting, url }) => {
    const proxy = hostProxy(url)
    return proxy ? [{ setting, url: wholeAddress(proxy) }] : []
  })
  const without = env.NO_PROXY ?? env.no_proxy ?? null
  const cacheProxy = ofHost.length > 0 ? { ...urlsOf(ofHost), none: without } : null
  if (usable.length === 0) return { ...none('none', remedy), cacheProxy }
  const urls = [...new Set(usable.map(({ url }) => url))]
  return {
    proxy: { ...urlsOf(usable), none: without },
    proxyFact: { state: `${urls.join(', ')} (${usable.map(({ setting }) => setting).join(', ')} of the host)`, remedy },
    cacheProxy,
    isOwnProxy: false,
  }
}

function urlsOf(settings: readonly { setting: string; url: string }[]): Pick<BuildProxy, 'https' | 'http'> {
  const urlOf = (name: string) => settings.find(({ setting }) => setting === name)?.url ?? null
  return { https: urlOf('HTTPS_PROXY'), http: urlOf('HTTP_PROXY') }
}

/** The fact about the proxy of builds, when these of its names have no address that builds may reach. */
export function proxyFactWithout({ proxyFact, isOwnProxy }: ProxySettings, names: readonly string[]): BuildFact {
  if (names.length === 0 || (isOwnProxy && proxyFact.remedy !== null)) return proxyFact
  const missing = `${names.join(', ')} has no address that builds may reach${isOwnProxy ? '' : ', so they do not use it'}`
  const remedy = `give ${names.join(', ')} an IPv4 address outside the machine and its containers, or ${correctIt}; the host looks again every minute`
  return { state: `${proxyFact.state}: ${missing}`, remedy: [proxyFact.remedy, remedy].filter(Boolean).join('; ') }
}

const correctIt = 'set BUILD_PROXY to a proxy for builds, or to off'
/** Every customer's install step could read them. */
const readable = 'has credentials, which builds do not get'

const loopbackNames =
  /^(localhost[46]?|.*\.localhost|localhost[46]?\.localdomain[46]?|ip6-.*|127(\.\d+){3}|0\.0\.0\.0)$/
const loopbackV6 = /^\[::1?\]$|^\[::ffff:7f/

/** Why no container reaches a proxy, or null. */
function unusable(url: string): string | null {
  if (!/^https?:\/\//i.test(url)) return 'is no http or https address'
  const endpoint = proxyEndpoint(url)
  if (endpoint === null)
    return 'is not only an address with a port (in a password, write % and its code for / ? # and \\)'
  const name = endpoint.hostname.replace(/\.$/, '')
  if (loopbackNames.test(name) || loopbackV6.test(name)) return 'is an address of loopback, which no container reaches'
  return name.startsWith('[') ? 'is an IPv6 address, which no container reaches' : null
}
