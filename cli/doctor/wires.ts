import { isIP } from 'node:net'
import type { Config } from '../../policy/config.ts'
import { plainHttpSettings, type Reached } from '../../policy/installation/plain-http.ts'
import type { Finding } from './findings.ts'

const inTheClear = 'IN CLEAR TEXT'

/** How clients reach the platform, with what to do when others can listen in. */
export function clientWire(config: Reached): Finding {
  const name = 'way to clients'
  const plain = plainHttpSettings(config)
  if (plain.length === 0) return { name, state: 'https, or this machine alone' }
  return {
    name,
    state: `PLAIN HTTP (${plain.join(', ')}): everybody on the way reads keys and codes`,
    remedy:
      'end TLS before the proxy, name what ends it in EDGE_TRUSTED_PROXIES and use https addresses: docs/installation.md, "What is open"',
  }
}

/** How the processes reach Temporal, with what to do when others can listen in. */
export function temporalWire({ temporalAddress, temporalTls, temporalApiKey }: TemporalWire): Finding {
  const name = 'way to temporal'
  const host = new URL(`tcp://${temporalAddress}`).hostname
  if (temporalTls)
    return {
      name,
      state: `TLS to ${host}${temporalTls.certificate || temporalApiKey ? '' : ', which asks nobody who they are'}`,
    }
  if (staysHere(host)) return { name, state: 'this machine only' }
  return {
    name,
    state: `${inTheClear} to ${host}, open to whoever reaches it`,
    remedy: 'set TEMPORAL_TLS_CA, TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY: docs/installation.md',
  }
}

type TemporalWire = Pick<Config, 'temporalAddress' | 'temporalTls' | 'temporalApiKey'>

/** How the processes reach the database, with what to do when others can listen in or answer in its place. */
export function databaseWire({ databaseUrl }: Pick<Config, 'databaseUrl'>): Finding {
  const name = 'way to the database'
  const url = new URL(databaseUrl)
  const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname)
  if (staysHere(host)) return { name, state: 'this machine only' }
  const mode = url.searchParams.get('sslmode') ?? 'disable'
  if (mode === 'verify-full') return { name, state: `TLS to ${host}, whose certificate is checked` }
  const how =
    mode === 'disable' || mode === 'prefer' ? inTheClear : `sslmode=${mode}: NOT KNOWN TO BE THE RIGHT SERVER,`
  return { name, state: `${how} to ${host}`, remedy: 'add sslmode=verify-full and sslrootcert to DATABASE_URL' }
}

/** Loopback, or a socket in the file system. */
function staysHere(host: string): boolean {
  const plain = host.replace(/^\[|\]$/g, '')
  if (plain === '' || plain === 'localhost' || plain.startsWith('/')) return true
  return isIP(plain) === 4 ? plain.startsWith('127.') : plain === '::1'
}
