import type { Language } from '../runtimes/runtime.ts'
import type { BuildProxy } from './build-settings.ts'
import { proxyEndpoint } from './proxy-address.ts'

/** Where a build finds the authorities that it trusts: as PEM, and as the key store that a JVM reads. */
export const trustFiles = { pem: '/etc/berth-ca.pem', jks: '/etc/berth-ca.jks' } as const

/** The key store with the authorities of a bundle: it lies next to it. */
export const keyStoreOf = (bundle: string): string => bundle.replace(/\.pem$/, '.jks')

/** Whether the tools of a language run on a JVM, which reads neither PEM files nor the variables of all others. */
export const isOnJvm = (language: Language): boolean => language === 'java'

/** Variables by which the tools of a build find its authorities, if it has any, and its proxy. */
export function trustVariables(
  language: Language,
  proxy: BuildProxy | null,
  hasAuthorities: boolean,
): Record<string, string> {
  const options = isOnJvm(language) ? jvmOptions(proxy, hasAuthorities) : []
  return {
    ...proxyVariables(proxy),
    ...(hasAuthorities ? Object.fromEntries(pemVariables.map(name => [name, trustFiles.pem])) : {}),
    ...(options.length > 0 && { JAVA_TOOL_OPTIONS: options.join(' ') }),
  }
}

/** Each language's tools have their own name for the same file. Those of Go, Ruby, PHP and .NET read SSL_CERT_FILE. */
const pemVariables = [
  'NODE_EXTRA_CA_CERTS',
  'NPM_CONFIG_CAFILE',
  'SSL_CERT_FILE',
  'CURL_CA_BUNDLE',
  'REQUESTS_CA_BUNDLE',
  'PIP_CERT',
  'GIT_SSL_CAINFO',
  'CARGO_HTTP_CAINFO',
  'HEX_CACERTS_PATH',
] as const

/** Some programs read the names in capitals, others those in small letters. */
function proxyVariables(proxy: BuildProxy | null): Record<string, string> {
  const values = { HTTP_PROXY: proxy?.http, HTTPS_PROXY: proxy?.https, NO_PROXY: proxy?.none }
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value ? [name, name.toLowerCase()].map(n => [n, value]) : [])),
  )
}

/** Variables by which a build that has these ones reaches an address without its proxy. */
export function withoutProxy(
  { NO_PROXY, JAVA_TOOL_OPTIONS }: Readonly<Record<string, string>>,
  address: string,
): Record<string, string> {
  const none = NO_PROXY ? `${NO_PROXY},${address}` : address
  const options = JAVA_TOOL_OPTIONS?.replace(/(?<=-Dhttp\.nonProxyHosts=\S*)(?=\s|$)/, `|${address}`)
  return { NO_PROXY: none, no_proxy: none, ...(options && { JAVA_TOOL_OPTIONS: options }) }
}

/** Every JVM of the build says in its log that it has them: they contain no credentials. Maven reads them only where an option says so. */
function jvmOptions(proxy: BuildProxy | null, hasAuthorities: boolean): string[] {
  const store = [`-Djavax.net.ssl.trustStore=${trustFiles.jks}`, '-Djavax.net.ssl.trustStoreType=JKS']
  const proxies = [...jvmProxy('http', proxy?.http ?? null), ...jvmProxy('https', proxy?.https ?? null)]
  const without = proxies.length > 0 ? [`-Dhttp.nonProxyHosts=${jvmNames(proxy?.none ?? '')}`] : []
  const options = [...(hasAuthorities ? store : []), ...proxies, ...without]
  return options.length > 0 ? [...options, '-Daether.connector.http.useSystemProperties=true'] : []
}

/** A JVM speaks to proxies without TLS only. */
function jvmProxy(protocol: 'http' | 'https', url: string | null): string[] {
  const endpoint = url === null ? null : proxyEndpoint(url)
  if (endpoint?.protocol !== 'http:') return []
  return [`-D${protocol}.proxyHost=${endpoint.hostname}`, `-D${protocol}.proxyPort=${endpoint.port}`]
}

/** NO_PROXY in the form of a JVM, which knows no ranges of addresses. A name stands for those below it too. */
function jvmNames(none: string): string {
  const names = none.split(/[,\s]+/).flatMap(entry => {
    const name = entry.replace(/:\d+$/, '').replace(/^\*?\./, '')
    if (name === '*') return ['*']
    if (!/^[\w.-]+$/.test(name)) return []
    return /^[\d.]+$/.test(name) ? [name] : [name, `*.${name}`]
  })
  return ['localhost', '127.*', '[::1]', ...names].join('|')
}
