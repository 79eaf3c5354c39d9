import { isIP } from 'node:net'
import { maxMembers } from '../../policy/edge/names.ts'

/** Target of the requests for one host name: the published address and port of the serving container. Port 0 = nowhere now, answered with 503. */
export interface Route {
  /** Full host name in lower case, for example `shop.apps.localhost`. */
  host: string
  appId: string
  address: string
  port: number
  /**
   * Part of the key of everything that is cached of this application: what was cached under another version is never served again.
   * Letters, digits, `_`, `.` and `-`; 64 at most. Without one nothing is cached.
   */
  version?: string
  /**
   * The same for all applications of an account, which share what one account may have open at the proxy: 1 to 64 lower-case hexadecimal
   * digits. Without one the application is an account of its own.
   */
  account?: string
}

/** What a removal knows of the route that it looked at. */
export type RouteMeant = Pick<Route, 'appId'> & Partial<Pick<Route, 'port'>>

/** The proxy refuses this route; nothing changes, and other routes are not affected. */
export class RouteRefused extends Error {
  override name = 'RouteRefused'
}

/** A custom host name: each of its requests goes to one of its members, and it is limited, logged and cached as one of that application. */
export interface ServedName {
  /** Full host name in lower case; one that has a route itself is that route's. */
  host: string
  /**
   * Host names of routes, at least one; after `@` the application that the route must lead to. Those without such a route, or with port 0,
   * get no requests; one that ends in `?` is not known to be healthy yet, and gets none while one without a mark is ready; one that ends in
   * `!` is unhealthy, and gets none while any other is.
   */
  members: string[]
}

/** The proxy refuses this name; nothing changes, and other names are not affected. */
export class NameRefused extends Error {
  override name = 'NameRefused'
}

/** Throws NameRefused for an invalid name. */
export function assertName({ host, members }: ServedName): void {
  const refuse = (why: string, value: unknown) => new NameRefused(`${why}: ${JSON.stringify(value)}`)
  if (!isHostName(host)) throw refuse('Not a host name in lower case', host)
  if (members.length < 1 || members.length > maxMembers) throw refuse(`1 to ${maxMembers} members are possible`, host)
  for (const member of members) if (!isMember(member)) throw refuse('Not the host name of a route', member)
  if (new Set(members.map(withoutMark)).size < members.length) throw refuse('A member is named twice', members)
}

/** A member as it is while it is healthy. */
export const withoutMark = (member: string): string => member.replace(/[!?]$/, '')

function isMember(member: string): boolean {
  const [host = '', app, ...rest] = withoutMark(member).split('@')
  return rest.length === 0 && isHostName(host) && (app === undefined || /^[\w-]+$/.test(app))
}

/** Throws RouteRefused for an invalid route. */
export function assertRoute({ host, appId, address, port, version, account }: Route): void {
  const refuse = (why: string, value: string) => new RouteRefused(`${why}: ${JSON.stringify(value)}`)
  if (!isHostName(host)) throw refuse('Not a host name in lower case', host)
  if (!/^[\w-]+$/.test(appId)) throw refuse('Not an application id', appId)
  if (!isIP(address)) throw refuse('A route needs an IP address (HOST_ADDRESS)', address)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw refuse('Not a port', String(port))
  if (version !== undefined && !/^[\w.-]{1,64}$/.test(version)) throw refuse('Not a version', version)
  if (account !== undefined && !/^[0-9a-f]{1,64}$/.test(account)) throw refuse('Not an account', account)
}

export function isHostName(host: string): boolean {
  return host.length <= 253 && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/.test(host)
}

/** A certificate that the proxy serves to clients that ask for its host name. */
export interface ServedCertificate {
  /** A host name in lower case, or `*.` and the parent of those that it serves; an exact name comes first. */
  host: string
  /** Changes whenever anything else of this record does: 1 to 64 letters, digits, `.`, `_` and `-`. */
  version: string
  /** PEM, each certificate followed by the one that issued it. */
  chain: string
  /** PEM, not encrypted. */
  key: string
}

/** The proxy refuses this certificate; nothing changes, and others are not affected. Its message holds nothing of the key. */
export class CertificateRefused extends Error {
  override name = 'CertificateRefused'
}

/** What an application has set for the requests to it. Holds for its custom names too, and while it has no route. */
export interface ServedSettings {
  /** Host name of its route. */
  host: string
  appId: string
  /** Changes whenever anything else of this record does: 1 to 64 letters, digits, `.`, `_` and `-`. */
  version: string
  /** Clients with an older version of TLS get no connection for its host names. */
  minTls: '1.2' | '1.3'
  /** Value of Strict-Transport-Security in answers over https; null = not sent. */
  hsts: string | null
  /** Max requests of a client's address (IPv6: of its /64) in a minute, at this proxy; null = no limit. */
  requestsPerMinute: number | null
  /** Addresses and networks, as in `10.0.0.0/8`, whose requests are refused. */
  blockedNetworks: string[]
  /** Every request gets the maintenance page; of a custom name's members, only if none is open. */
  maintenance: boolean
  /** HTML in place of the proxy's own page; null = the proxy's. */
  pages: { error: string | null; maintenance: string | null }
}

/** The proxy refuses these settings; nothing changes, and those of others are not affected. */
export class SettingsRefused extends Error {
  override name = 'SettingsRefused'
}

/** What the proxy itself answers below `/.well-known/`: a token of the path, a full stop, and this text; null = it does not. */
export interface WellKnownAnswers {
  /** `/.well-known/acme-challenge/<token>`: the thumbprint of the ACME account. */
  'acme-challenge': string | null
  /** `/.well-known/berth-check/<token>`, by which the platform recognizes its own proxy behind any host name. */
  'berth-check': string | null
}

/** How up to date the table of a proxy is. */
interface EdgeStanding {
  /** Of the proxy, for as long as its folder lasts; null: of a version without one. */
  id: string | null
  /** Changes with each start of the proxy. */
  run: string
  /** Up to where its table is complete; null when no mark was set since its start. */
  mark: string | null
}

/** The reverse proxy: routes, names and certificates change without a reload and without a dropped request, and survive its restart. */
export interface Edge {
  /** Effective on return, also for a changed target. Idempotent. Throws RouteRefused, and other errors when the proxy is unreachable. */
  setRoute(route: Route): Promise<void>
  /** Unknown hosts are success. With `only`, a route of another application, or at another port if one is given, stays. */
  removeRoute(host: string, only?: RouteMeant): Promise<void>
  /** Replaces the proxy's table with `routes` (at the start of the platform, and for repair). */
  syncRoutes(routes: Route[]): Promise<void>
  listRoutes(): Promise<Route[]>
  /** The routes of those of these hosts that it has. */
  findRoutes(hosts: readonly string[]): Promise<Route[]>
  /** As `setRoute`, for a custom name. Throws NameRefused, and other errors when the proxy is unreachable. */
  setName(name: ServedName): Promise<void>
  /** Unknown names are success. */
  removeName(host: string): Promise<void>
  /** Replaces all custom names of the proxy with `names`. */
  syncNames(names: ServedName[]): Promise<void>
  /** All, or those of these hosts that it has. */
  listNames(hosts?: readonly string[]): Promise<ServedName[]>
  standing(): Promise<EdgeStanding>
  /**
   * Records up to where the table is complete: letters, digits, `.`, `/`, `:`, `-` and spaces. Cleared when the proxy restarts or the
   * whole table is replaced. For another run than the current one it succeeds without a change.
   */
  setMark(run: string, mark: string): Promise<void>
  /** In the next handshake on return. Idempotent. Throws CertificateRefused, and other errors when the proxy is unreachable. */
  setCertificate(certificate: ServedCertificate): Promise<void>
  /** Unknown hosts are success. Handshakes for a host without a certificate are refused. */
  removeCertificate(host: string): Promise<void>
  /** Replaces all certificates, or throws CertificateRefused and changes nothing. */
  syncCertificates(certificates: ServedCertificate[]): Promise<void>
  /** All, or those of these hosts that it has. */
  listCertificates(hosts?: readonly string[]): Promise<Pick<ServedCertificate, 'host' | 'version'>[]>
  /** For the next request on return. Idempotent. Throws SettingsRefused, and other errors when the proxy is unreachable. */
  setSettings(settings: ServedSettings): Promise<void>
  /** Unknown hosts are success. */
  removeSettings(host: string): Promise<void>
  /** All, or those of these hosts that it has. */
  listSettings(hosts?: readonly string[]): Promise<Pick<ServedSettings, 'host' | 'version'>[]>
  /** Replaces all answers: letters, digits, `_` and `-`. Survives a restart of the proxy, as everything here. Throws RangeError. */
  setAnswers(answers: WellKnownAnswers): Promise<void>
}
