import type { EdgeSettings } from '../policy/config.ts'
import type { SurfaceTargets } from './surfaces.ts'

/** What nginx.conf is made of. */
export interface EdgeConfigOptions {
  settings: EdgeSettings
  /** Folder of everything the proxy writes. */
  folder: string
  /** Folder of the Lua scripts. */
  scripts: string
  /** Folder of nginx's loadable modules. */
  modules: string
  /** System user of nginx's workers; null when nginx itself runs unprivileged. */
  user: string | null
  targets: SurfaceTargets
  /** Whether other machines that are no trusted proxy may speak plain http although TLS ends before this proxy. */
  allowPlainHttp: boolean
  /** Connections of each worker. */
  workerConnections: number
  /** Multiplies the connections per address. */
  limitScale: number
}

/** TLS ends before this proxy: whoever comes another way across a network is read by everybody on it. */
export const takesHttpsOnly = ({ settings, allowPlainHttp }: EdgeConfigOptions): boolean =>
  settings.trustedProxies.length > 0 && !allowPlainHttp
