import type { EngineName } from './engine.ts'
import { engines } from './engines.ts'

export interface DatabaseAddress {
  /** A host name or an IPv4 address. */
  host: string
  port: number
}

/** The customer's user in every engine, and the name of the database it owns in engines with several. */
export const customerUser = 'default'

/** The name of a database in the domain of applications; applications of its owner reach it by this name too. */
export const databaseHostname = (id: string, domain: string): string => `db-${id}.${domain}`

/** URL with which a driver connects over TLS. */
export function connectionUrl(engine: EngineName, { host, port }: DatabaseAddress, password: string): string {
  const { scheme, path, query } = engines[engine].url
  return `${scheme}://${customerUser}:${password}@${host}:${port}${path}${query && `?${query}`}`
}
