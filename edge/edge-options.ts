import type { EdgeSettings } from '../policy/edge/edge-settings.ts'
import type { NginxBuild } from './nginx-binary.ts'
import type { SurfaceTargets } from './surfaces.ts'

/** The input of nginx.conf. */
export interface EdgeConfigOptions {
  settings: EdgeSettings
  /** Random letters and digits of this start: with connection and request in it they are the id of a request. */
  run: string
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

/** Where TLS ends at this proxy or before it, a request that bypasses it could be read by anyone on the network. */
export const acceptsHttpsOnly = ({ settings, allowPlainHttp }: EdgeConfigOptions): boolean =>
  (settings.tls !== null || settings.trustedProxies.length > 0) && !allowPlainHttp
