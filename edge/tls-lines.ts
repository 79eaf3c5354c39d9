import { edgeTls, tlsChoices } from '../policy/installation/edge-tls.ts'
import type { EdgeConfigOptions } from './edge-options.ts'
import { quotedNginx } from './nginx-text.ts'

/** The certificate that nginx loads and Lua replaces in every handshake. */
export const unusedCertificate = 'unused-certificate.pem'

/** What all servers of the TLS port share. */
export function tlsLines({ settings, folder }: EdgeConfigOptions): string[] {
  if (!settings.tls) return []
  return [
    `ssl_certificate ${quotedNginx(`${folder}/${unusedCertificate}`)};`,
    `ssl_certificate_key ${quotedNginx(`${folder}/${unusedCertificate}`)};`,
    'ssl_protocols TLSv1.2 TLSv1.3;',
    `ssl_ciphers ${tlsChoices.ciphers.join(':')};`,
    `ssl_ecdh_curve ${tlsChoices.curves.join(':')};`,
    'ssl_prefer_server_ciphers off;',
    // nginx never replaces the key of its tickets, so all connections of its lifetime would depend on one key.
    'ssl_session_tickets off;',
    `ssl_session_cache shared:sessions:${edgeTls.sessionCacheMb}m;`,
    'ssl_session_timeout 1d;',
    // Whether a body follows is open: HTTP/2 need not announce one.
    'map "$http2:$request_method:$http_content_length" $unannounced { "h2:GET:" 1; "h2:HEAD:" 1; default ""; }',
    `http2_max_concurrent_streams ${edgeTls.maxStreams};`,
    "ssl_client_hello_by_lua_block { require('certificates').greet() }",
    "ssl_certificate_by_lua_block { require('certificates').present() }",
  ]
}
