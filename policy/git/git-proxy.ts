import type { Environment } from '../environment.ts'
import type { BuildFact } from '../hosts/build-settings.ts'
import {
  environmentProxies,
  type HostProxies,
  hostProxy,
  noProxies,
  shown,
  unreadableProxy,
  withScheme,
} from '../hosts/proxy-address.ts'

export interface GitProxySettings {
  proxies: HostProxies
  /** For people, without credentials. */
  fact: BuildFact
}

const correctIt = 'correct it, or set GIT_PROXY to a proxy for fetches, or to off'

/** The proxies with which fetches reach git servers, from GIT_PROXY or else from the environment of the process. */
export function gitProxySettings(env: Environment): GitProxySettings {
  const { proxies, used, faults } = environmentProxies(env)
  if (env.GIT_PROXY === 'off')
    return {
      proxies: { ...noProxies, none: proxies.none },
      fact: { state: 'none: GIT_PROXY is off', remedy: null },
    }
  if (env.GIT_PROXY !== undefined) {
    const proxy = hostProxy(env.GIT_PROXY)
    // It may contain a password.
    if (proxy === null) throw new Error(`The setting GIT_PROXY ${unreadableProxy}; it must be one, or off.`)
    const state = `${shown(withScheme(env.GIT_PROXY))} (GIT_PROXY)`
    return { proxies: { https: proxy, http: proxy, none: proxies.none }, fact: { state, remedy: null } }
  }
  const remedy = faults.length > 0 ? `${faults.join(', ')} ${unreadableProxy}: ${correctIt}` : null
  return { proxies, fact: { state: used.join(', ') || 'none', remedy } }
}
