import type { Config } from '../config.ts'

export type Reached = Pick<Config, 'urls' | 'bind' | 'edge' | 'allowPlainHttp'>

/** Settings and values with which other machines reach the platform by plain http; empty when there are none. */
export function plainHttpSettings({ urls, bind, edge }: Reached): string[] {
  const surfaces = Object.entries({
    BASE_URL: urls.base,
    BLOB_URL: urls.blob,
    S3_URL: urls.s3,
    FILES_URL: urls.files,
    PUBLIC_URL: urls.public,
    EDGE_URL: urls.edge,
  })
  const plain = surfaces.filter(([, url]) => url.startsWith('http://') && !isThisMachine(new URL(url).hostname))
  if (plain.length > 0) return plain.map(([setting, url]) => `${setting}=${url}`)
  // The API never terminates TLS.
  if (!isThisMachine(bind)) return [`BIND_ADDRESS=${bind}`]
  if (isThisMachine(edge.bind)) return []
  // Neither does the proxy unless EDGE_TLS is set, and it answers to any name. An https address is then safe only when all clients come
  // through a TLS terminator, and the proxy learns only from the proxies named here that a client used https.
  const tls = surfaces.some(([, url]) => url.startsWith('https://'))
  if (!tls) return [`EDGE_BIND=${edge.bind}`]
  if (edge.tls || edge.trustedProxies.length > 0) return []
  return [`EDGE_BIND=${edge.bind}, and no EDGE_TRUSTED_PROXIES or EDGE_TLS`]
}

/** Throws an Error that says what to do when other machines reach the platform by plain http without the operator's consent. */
export function refusePlainHttp(config: Reached): void {
  const settings = plainHttpSettings(config)
  if (config.allowPlainHttp || settings.length === 0) return
  throw new Error(
    `Other machines reach this platform by plain http (${settings.join(', ')}): anyone on the network path can read and change API keys, sign-in codes, ` +
      'session tokens and files. Set https addresses (BERTH_SCHEME=https with docker-compose.yml), and let the proxy terminate TLS (EDGE_TLS), or something in front ' +
      'of it whose address is in EDGE_TRUSTED_PROXIES (with EDGE_BIND=127.0.0.1 when it runs on this machine). ' +
      'On a private network where this is acceptable: ALLOW_PLAIN_HTTP=on.',
  )
}

/** Whether a host name or address always means the machine that uses it. */
function isThisMachine(host: string): boolean {
  return /^(([^.]+\.)*localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)\.?$/i.test(host)
}
