import { isIP } from 'node:net'
import type { Config } from '../policy/config.ts'

const inTheClear = 'IN CLEAR TEXT'

/** How the processes reach Temporal, with what to do when others can listen in. */
export function temporalWire({ temporalAddress, temporalTls, temporalApiKey }: TemporalWire): string {
  const host = new URL(`tcp://${temporalAddress}`).hostname
  if (temporalTls)
    return `TLS to ${host}${temporalTls.certificate || temporalApiKey ? '' : ', which asks nobody who they are'}`
  if (staysHere(host)) return 'this machine only'
  return `${inTheClear} to ${host}, open to whoever reaches it: set TEMPORAL_TLS_CA, TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY`
}

type TemporalWire = Pick<Config, 'temporalAddress' | 'temporalTls' | 'temporalApiKey'>

/** How the processes reach the database, with what to do when others can listen in or answer in its place. */
export function databaseWire({ databaseUrl }: Pick<Config, 'databaseUrl'>): string {
  const url = new URL(databaseUrl)
  const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname)
  if (staysHere(host)) return 'this machine only'
  const mode = url.searchParams.get('sslmode') ?? 'disable'
  if (mode === 'verify-full') return `TLS to ${host}, whose certificate is checked`
  const how =
    mode === 'disable' || mode === 'prefer' ? inTheClear : `sslmode=${mode}: NOT KNOWN TO BE THE RIGHT SERVER,`
  return `${how} to ${host}: add sslmode=verify-full and sslrootcert to DATABASE_URL`
}

/** Loopback, or a socket in the file system. */
function staysHere(host: string): boolean {
  const plain = host.replace(/^\[|\]$/g, '')
  if (plain === '' || plain === 'localhost' || plain.startsWith('/')) return true
  return isIP(plain) === 4 ? plain.startsWith('127.') : plain === '::1'
}
