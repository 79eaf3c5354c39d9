import { absolute, type Environment, integer, oneOf } from '../environment.ts'

/** TLS of the proxy. The other sizes of the proxy stand in its configuration. */
export const edgeTls = {
  defaultPort: 8443,
  /** Sessions that clients resume without a full handshake: about 4,000 per MB. */
  sessionCacheMb: 20,
  /** Room for certificates, their chains and keys: about 15,000 of 4 KB. */
  certificatesMb: 64,
  /** Certificates that each worker of the proxy holds parsed, about 14 KB each. */
  parsedPerWorker: 2000,
  /** Requests that a connection of HTTP/2 may have open. */
  maxStreams: 64,
  /** A connection is closed after this many requests, which bounds what one that resets its streams costs. */
  requestsPerConnection: 1000,
} as const

/** The curves and ciphers of Mozilla's intermediate recommendation, without those that need a group of their own (DHE). */
export const tlsChoices = {
  curves: ['X25519', 'prime256v1', 'secp384r1'],
  ciphers: [
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
  ],
} as const

interface EdgeTls {
  /** Who issues certificates: an authority of this installation, or one that is reached by ACME. */
  authority: 'local' | 'acme'
  port: number
  /** The port by which clients reach it, for redirects. */
  publicPort: number
  /** Files of the operator with the certificate of the platform's names and its key; null = issued by the authority. */
  files: { certificate: string; key: string } | null
}

export interface EdgeTlsSettings {
  /** Null: the proxy does not terminate TLS. */
  tls: EdgeTls | null
  /** Connections begin with a PROXY header, from which the address of the client is taken. */
  proxyProtocol: boolean
}

/** Throws an Error that names the setting and what it accepts. */
export function edgeTlsSettings(env: Environment, cwd: string, trustedProxies: readonly string[]): EdgeTlsSettings {
  const proxyProtocol = oneOf(env, 'EDGE_PROXY_PROTOCOL', ['off', 'on']) === 'on'
  if (proxyProtocol && trustedProxies.length === 0)
    throw new Error('The setting EDGE_PROXY_PROTOCOL is "on"; EDGE_TRUSTED_PROXIES must name who may send its header.')
  const { EDGE_CERTIFICATE: certificate, EDGE_CERTIFICATE_KEY: key } = env
  if (!certificate !== !key)
    throw new Error('The settings EDGE_CERTIFICATE and EDGE_CERTIFICATE_KEY must be set together, or neither.')
  const authority = oneOf(env, 'EDGE_TLS', ['off', 'local', 'acme'])
  const port = integer(env, 'EDGE_TLS_PORT', edgeTls.defaultPort)
  if (authority === 'off') return { tls: null, proxyProtocol }
  const files = certificate && key ? { certificate: absolute(certificate, cwd), key: absolute(key, cwd) } : null
  return { tls: { authority, port, publicPort: publicPortOf(env.EDGE_URL) ?? port, files }, proxyProtocol }
}

function publicPortOf(edgeUrl: string | undefined): number | null {
  if (!edgeUrl || !URL.canParse(edgeUrl)) return null
  const { protocol, port } = new URL(edgeUrl)
  return protocol === 'https:' ? Number(port || 443) : null
}
