import type { Config } from '../config.ts'

export type Reached = Pick<Config, 'urls' | 'bind' | 'edge' | 'allowPlainHttp'>

/** Settings under which other machines reach the platform by plain http, with what they name; empty when none does. */
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
  // The API itself never ends TLS.
  if (!isThisMachine(bind)) return [`BIND_ADDRESS=${bind}`]
  if (isThisMachine(edge.bind)) return []
  // The proxy does not either, and answers to whatever name it is asked for. An https address is worth something when all come by way of
  // what ends TLS, and only who is named here tells the proxy that a client spoke https.
  const tls = surfaces.some(([, url]) => url.startsWith('https://'))
  if (!tls) return [`EDGE_BIND=${edge.bind}`]
  return edge.trustedProxies.length > 0 ? [] : [`EDGE_BIND=${edge.bind}, and no EDGE_TRUSTED_PROXIES`]
}

/** Throws an Error that says what to do when other machines reach the platform by plain http and nobody has asked for that. */
export function refusePlainHttp(config: Reached): void {
  const settings = plainHttpSettings(config)
  if (config.allowPlainHttp || settings.length === 0) return
  throw new Error(
    `Other machines reach this platform by plain http (${settings.join(', ')}): everybody on the way can read and change API keys, sign-in codes, ` +
      'session tokens and files. Let something before the proxy end TLS, give its address in EDGE_TRUSTED_PROXIES (and EDGE_BIND=127.0.0.1 when it runs ' +
      'on this machine), and name https addresses (BERTH_SCHEME=https with docker-compose.yml). ' +
      'On a private network where that is no danger: ALLOW_PLAIN_HTTP=on.',
  )
}

/** Whether a host name or address never leaves the machine that uses it. */
function isThisMachine(host: string): boolean {
  return /^(([^.]+\.)*localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)\.?$/i.test(host)
}
