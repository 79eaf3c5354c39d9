import type { EdgeSettings } from '../policy/edge/edge-settings.ts'
import type { NginxBuild } from './nginx-binary.ts'
import type { SurfaceTargets } from './surfaces.ts'

/** The input of nginx.conf. */
export interface EdgeConfigOptions {
  settings: EdgeSettings
  /** Random letters and digits of this start: with connection and request in it they are the id of a request. */
  run: string
  /** Id of this proxy, the same in each start. */
  id: string
  /** Folder of all files that the proxy writes. */
  folder: string
  /** Folder of the Lua scripts. */
  scripts: string
  nginx: NginxBuild
  /** System user of nginx's workers; null when nginx itself runs unprivileged. */
  user: string | null
  targets: SurfaceTargets
  /** The domain below which each application has a name. */
  appsDomain: string
  /** Whether machines that are not trusted proxies may use plain HTTP although TLS ends before this proxy. */
  allowPlainHttp: boolean
  /** Connections of each worker. */
  workerConnections: number
  /** Multiplies the connections per address. */
  limitScale: number
}

/** The id of a request, of nginx's variables. Unlike its own $request_id it asks OpenSSL for nothing, which took as long as a tenth of a request. */
export const requestId = (run: string): string => `${run}-$connection-$connection_requests`

/** Who may say by a header that its client has used https. */
export const schemeTellers = ({ trustedProxies, proxyProtocol }: EdgeSettings): readonly string[] =>
  proxyProtocol ? [] : trustedProxies

/** The variable with the scheme that the client has used. A map is looked up only where somebody else may tell. */
export const clientScheme = (settings: EdgeSettings): string =>
  schemeTellers(settings).length ? '$client_scheme' : '$scheme'

/** Where TLS ends at this proxy or before it, a request that bypasses it could be read by anyone on the network. */
export const acceptsHttpsOnly = ({ settings, allowPlainHttp }: EdgeConfigOptions): boolean =>
  (settings.tls !== null || settings.trustedProxies.length > 0) && !allowPlainHttp
