import { isIP } from 'node:net'
import type { Config } from '../../policy/config.ts'
import { plainHttpSettings, type Reached } from '../../policy/installation/plain-http.ts'
import type { Finding } from './findings.ts'

const inTheClear = 'IN CLEAR TEXT'

/** How clients reach the platform, and what to do if others can eavesdrop. */
export function clientWire(config: Reached): Finding {
  const name = 'client connections'
  const plain = plainHttpSettings(config)
  if (plain.length === 0) return { name, state: 'https, or this machine only' }
  return {
    name,
    state: `PLAIN HTTP (${plain.join(', ')}): anyone on the path can read keys and codes`,
    remedy:
      'terminate TLS in front of the proxy, list what terminates it in EDGE_TRUSTED_PROXIES, and use https addresses: docs/installation.md, "What is open"',
  }
}

/** How the processes reach Temporal, and what to do if others can eavesdrop. */
export function temporalWire({ temporalAddress, temporalTls, temporalApiKey }: TemporalWire): Finding {
  const name = 'temporal connection'
  const host = new URL(`tcp://${temporalAddress}`).hostname
  if (temporalTls)
    return {
      name,
      state: `TLS to ${host}${temporalTls.certificate || temporalApiKey ? '' : ', without client authentication'}`,
    }
  if (isLocal(host)) return { name, state: 'this machine only' }
  return {
    name,
    state: `${inTheClear} to ${host}, open to anyone who can reach it`,
    remedy: 'set TEMPORAL_TLS_CA, TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY: docs/installation.md',
  }
}

type TemporalWire = Pick<Config, 'temporalAddress' | 'temporalTls' | 'temporalApiKey'>

/** How the processes reach the database, and what to do if others can eavesdrop or impersonate it. */
export function databaseWire({ databaseUrl }: Pick<Config, 'databaseUrl'>): Finding {
  const name = 'database connection'
  const url = new URL(databaseUrl)
  const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname)
  if (isLocal(host)) return { name, state: 'this machine only' }
  const mode = url.searchParams.get('sslmode') ?? 'disable'
  if (mode === 'verify-full') return { name, state: `TLS to ${host}, certificate verified` }
  const how = mode === 'disable' || mode === 'prefer' ? inTheClear : `sslmode=${mode}: SERVER NOT VERIFIED,`
  return { name, state: `${how} to ${host}`, remedy: 'add sslmode=verify-full and sslrootcert to DATABASE_URL' }
}

/** Loopback, or a socket in the file system. */
function isLocal(host: string): boolean {
  const plain = host.replace(/^\[|\]$/g, '')
  if (plain === '' || plain === 'localhost' || plain.startsWith('/')) return true
  return isIP(plain) === 4 ? plain.startsWith('127.') : plain === '::1'
}
