import { edgeTls } from '../policy/installation/edge-tls.ts'
import { acceptsHttpsOnly, type EdgeConfigOptions } from './edge-options.ts'

/** A port of the proxy: each server exists once for each of them. */
export interface Listener {
  port: number
  /** What happens to plain http, by the router; null where there is none, or where it is served. */
  applications: 'redirected' | 'refused' | null
  surfaces: 'refused' | null
  tls: boolean
}

/** The ports that the settings ask for. */
export function listeners(options: EdgeConfigOptions): Listener[] {
  const { port, tls } = options.settings
  const refused = acceptsHttpsOnly(options) ? 'refused' : null
  const plain: Listener = { port, applications: tls ? 'redirected' : refused, surfaces: refused, tls: false }
  return tls ? [plain, { port: tls.port, applications: null, surfaces: null, tls: true }] : [plain]
}

/** The directives with which a server listens. */
export function listenLines(
  { settings: { bind, proxyProtocol }, nginx }: EdgeConfigOptions,
  { port, tls }: Listener,
  isDefault = false,
): string[] {
  const address = bind.includes(':') ? `[${bind}]` : bind
  const words = [
    `${address}:${port}`,
    isDefault && 'default_server',
    isDefault && bind.includes(':') && 'ipv6only=off',
    tls && 'ssl',
    tls && !nginx.http2Directive && 'http2',
    proxyProtocol && 'proxy_protocol',
  ]
  return [
    `listen ${words.filter(Boolean).join(' ')};`,
    ...(tls && nginx.http2Directive ? ['http2 on;'] : []),
    ...(tls ? [`keepalive_requests ${edgeTls.requestsPerConnection};`] : []),
  ]
}
