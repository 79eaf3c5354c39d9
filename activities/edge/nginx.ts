import { setImmediate as otherWork } from 'node:timers/promises'
import { withoutWildcard } from '../../policy/domains/records.ts'
import { control, unlessOlder } from './control-socket.ts'
import {
  assertName,
  assertRoute,
  CertificateRefused,
  type Edge,
  isHostName,
  NameRefused,
  type Route,
  RouteRefused,
  type ServedCertificate,
  type ServedName,
  type WellKnownAnswers,
} from './port.ts'
import { checkedCertificate } from './served-certificate.ts'

/** A name has at most 253 characters, a request line 8 KB. */
const hostsPerRequest = 30

/** Checking a certificate takes a few tenths of a millisecond. */
const certificatesPerTurn = 50

/** Ten thousand certificates are 40 MB, which the proxy reads, stores and writes. */
const allCertificatesMs = 30_000

/** The edge as nginx with our Lua router, over its control socket. Every call throws an Error when the proxy is unreachable, and
 * RouteRefused, NameRefused or CertificateRefused when it refuses what it is sent. */
export function nginxEdge(controlSocket: string): Edge {
  const routes = (method: 'GET' | 'PUT' | 'POST', body = '', path = '/routes') =>
    control(controlSocket, { method, path, body, Refused: RouteRefused })
  const names = (method: 'GET' | 'PUT' | 'POST', body = '') =>
    control(controlSocket, { method, path: '/names', body, Refused: NameRefused })
  const certificates = (method: 'GET' | 'PUT' | 'POST', body = '', deadlineMs?: number) =>
    control(controlSocket, { method, path: '/certificates', body, deadlineMs, Refused: CertificateRefused })
  return {
    async setRoute(route) {
      await routes('POST', line(route))
    },
    async removeRoute(host) {
      if (isHostName(host)) await routes('POST', removal(host))
    },
    async syncRoutes(wanted) {
      await routes('PUT', wanted.map(line).join('\n'))
    },
    async listRoutes() {
      return recordsIn<Route>(await routes('GET'))
    },
    async findRoutes(hosts) {
      const found: Route[] = []
      const known = hosts.filter(isHostName)
      for (let at = 0; at < known.length; at += hostsPerRequest) {
        const batch = known.slice(at, at + hostsPerRequest)
        found.push(...recordsIn<Route>(await routes('GET', '', `/routes?hosts=${batch.join(',')}`)))
      }
      return found
    },
    async setName(name) {
      await names('POST', nameLine(name))
    },
    async removeName(host) {
      if (isHostName(host)) await names('POST', removal(host))
    },
    async syncNames(all) {
      await names('PUT', all.map(nameLine).join('\n'))
    },
    async listNames() {
      return recordsIn<ServedName>(await names('GET'))
    },
    async standing() {
      const text = await routes('GET', '', '/mark').catch(unlessOlder)
      return text === null ? { run: '', mark: null } : JSON.parse(text)
    },
    async setMark(run, mark) {
      await routes('PUT', `${run} ${mark}`, '/mark').catch(unlessOlder)
    },
    async setCertificate(certificate) {
      await certificates('POST', certificateLine(certificate))
    },
    async removeCertificate(host) {
      if (isHostName(withoutWildcard(host))) await certificates('POST', removal(host))
    },
    async syncCertificates(wanted) {
      const lines: string[] = []
      for (const certificate of wanted) {
        lines.push(certificateLine(certificate))
        if (lines.length % certificatesPerTurn === 0) await otherWork()
      }
      await certificates('PUT', lines.join('\n'), allCertificatesMs)
    },
    async listCertificates() {
      return recordsIn(await certificates('GET'))
    },
    async setAnswers(answers) {
      await control(controlSocket, { method: 'PUT', path: '/answers', body: answerLines(answers), Refused: RangeError })
    },
  }
}

const recordsIn = <T>(text: string): T[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(row => JSON.parse(row))

const removal = (host: string): string => JSON.stringify({ host, removed: true })

/** The proxy's line of a route. Throws RouteRefused for a route that it could not read or reach. */
function line(route: Route): string {
  assertRoute(route)
  const { host, appId, address, port, version } = route
  return JSON.stringify({ host, appId, address, port, version })
}

/** The proxy's line of a custom name. Throws NameRefused for one that it could not read. */
function nameLine(name: ServedName): string {
  assertName(name)
  const { host, members, https, hsts } = name
  return JSON.stringify({ host, members, https, hsts })
}

/** The proxy's line of a certificate. Throws CertificateRefused for one that clients would not accept. */
function certificateLine(certificate: ServedCertificate): string {
  const { host, version, minTls, chain, key } = checkedCertificate(certificate)
  return JSON.stringify({ host, version, minTls, chain, key })
}

function answerLines(answers: WellKnownAnswers): string {
  return Object.entries(answers)
    .filter(([, proof]) => proof !== null)
    .map(([kind, proof]) => JSON.stringify({ kind, proof }))
    .join('\n')
}
