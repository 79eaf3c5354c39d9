import { dirname, join } from 'node:path'
import type { EdgeSettings } from '../policy/config.ts'
import type { SurfaceTargets } from './surfaces.ts'

/** The input of nginx.conf. */
export interface EdgeConfigOptions {
  settings: EdgeSettings
  /** Folder of all files that the proxy writes. */
  folder: string
  /** Folder of the Lua scripts. */
  scripts: string
  /** Folder of nginx's loadable modules. */
  modules: string
  /** System user of nginx's workers; null when nginx itself runs unprivileged. */
  user: string | null
  targets: SurfaceTargets
  /** Whether machines that are not trusted proxies may use plain HTTP although TLS ends before this proxy. */
  allowPlainHttp: boolean
  /** Connections of each worker. */
  workerConnections: number
  /** Multiplies the connections per address. */
  limitScale: number
}

/** Where TLS ends before this proxy, a request that bypasses it could be read by anyone on the network. */
export const acceptsHttpsOnly = ({ settings, allowPlainHttp }: EdgeConfigOptions): boolean =>
  settings.trustedProxies.length > 0 && !allowPlainHttp

/** The file in which custom names outlive the proxy, beside that of the routes. */
export const namesFile = ({ routesFile }: Pick<EdgeSettings, 'routesFile'>): string =>
  join(dirname(routesFile), 'names.json')
