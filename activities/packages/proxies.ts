import { Agent, type Dispatcher, ProxyAgent } from 'undici'
import {
  addressOf,
  type HostProxies,
  type HostProxy,
  proxyAuthorization,
  proxyOf,
  serverOf,
} from '../../policy/hosts/proxy-address.ts'

export interface ProxiedDispatcher {
  dispatcher: Dispatcher
  /** Its connections end once they are no longer needed. */
  close(): Promise<unknown>
  /** Its connections end now. */
  destroy(): Promise<unknown>
}

/**
 * Sends each request, also each one of a redirect, directly or through the proxy for its server. `EnvHttpProxyAgent` of undici would
 * use the proxy for http addresses for https too where there is no other, and reads NO_PROXY in its own way.
 */
export function proxiedDispatcher(proxies: HostProxies, options: Agent.Options = {}, ca?: string): ProxiedDispatcher {
  const direct = new Agent(options)
  const agents = new Map<HostProxy, Dispatcher>()
  for (const proxy of [proxies.https, proxies.http]) {
    if (!proxy) continue
    // undici sends credentials of an address only if they have a password.
    const token = proxyAuthorization(proxy) ?? undefined
    agents.set(
      proxy,
      new ProxyAgent({ ...options, uri: addressOf(proxy), token, ...(ca && { requestTls: { ca }, proxyTls: { ca } }) }),
    )
  }
  const dispatcher = direct.compose(dispatch => (request, handler) => {
    const proxy = proxyOf(proxies, serverOf(new URL(request.origin ?? '')))
    const agent = proxy && agents.get(proxy)
    return agent ? agent.dispatch(request, handler) : dispatch(request, handler)
  })
  const all = [direct, ...agents.values()]
  return {
    dispatcher,
    close: () => Promise.all(all.map(one => one.close())),
    destroy: () => Promise.all(all.map(one => one.destroy())),
  }
}
