import { absolute, type Environment, integer, list, oneOf } from '../environment.ts'
import { type EdgePlace, edgePlace } from '../installation/edge-place.ts'
import { type EdgeTlsSettings, edgeTlsSettings } from '../installation/edge-tls.ts'
import { type SurfaceNames, surfaceNames } from '../installation/surface-names.ts'

/** Settings of the proxy. */
export interface EdgeSettings extends EdgeTlsSettings {
  /** The nginx binary; null = that of the distribution. */
  nginx: string | null
  bind: string
  port: number
  controlSocket: string
  routesFile: string
  domain: string
  /** Host names of the platform's surfaces in addition to those below `domain`. */
  names: SurfaceNames
  /** Processes of the proxy; 0 = one per core. */
  workers: number
  /** Max open requests of one client address, before `rateLimitScale`. */
  connectionsPerAddress: number
  /** Max open requests of one application at the proxy. */
  connectionsPerApp: number
  /** Proxies in front of Berth's whose X-Forwarded-For and -Proto are trusted (addresses or networks). */
  trustedProxies: string[]
  /** Max request body that is passed to an application. */
  appBodyMb: number
  /** Compresses what applications answer as text. */
  compression: boolean
  logHours: number
  logMb: number
  /** Max disk of what is cached of applications; 0 = nothing is. */
  cacheMb: number
  place: EdgePlace
}

/** Throws an Error that names the setting and what it accepts. */
export function edgeSettings(
  env: Environment,
  cwd: string,
  { dataDir, domain, port }: { dataDir: string; domain: string; port: number },
): EdgeSettings {
  const trustedProxies = list(env.EDGE_TRUSTED_PROXIES)
  return {
    nginx: env.NGINX ? absolute(env.NGINX, cwd) : null,
    bind: env.EDGE_BIND ?? '127.0.0.1',
    port,
    controlSocket: env.EDGE_CONTROL_SOCKET ?? `${dataDir}/run/edge/control.sock`,
    routesFile: routesFile(env.EDGE_ROUTES_FILE, `${dataDir}/proxy`),
    domain,
    names: surfaceNames(env),
    workers: integer(env, 'EDGE_WORKERS', 0),
    connectionsPerAddress: integer(env, 'EDGE_CONNECTIONS_PER_ADDRESS', 100),
    connectionsPerApp: integer(env, 'EDGE_CONNECTIONS_PER_APP', 1000),
    trustedProxies,
    ...edgeTlsSettings(env, cwd, trustedProxies),
    appBodyMb: integer(env, 'EDGE_APP_BODY_MB', 512),
    compression: oneOf(env, 'EDGE_COMPRESSION', ['on', 'off']) === 'on',
    logHours: integer(env, 'EDGE_LOG_HOURS', 192),
    logMb: integer(env, 'EDGE_LOG_MB', 2048),
    cacheMb: integer(env, 'EDGE_CACHE_MB', 1024),
    place: edgePlace(env),
  }
}

/** The default of earlier versions, in a folder that is root's now, stands for that of this one: the tables move at the first start. */
function routesFile(set: string | undefined, folder: string): string {
  return !set || set === `${folder}/routes.json` ? `${folder}/tables/routes.json` : set
}
