import { setImmediate as otherWork } from 'node:timers/promises'
import { withoutWildcard } from '../../policy/domains/records.ts'
import { control, type RefusalClass, unlessOlder } from './control-socket.ts'
import {
  assertName,
  assertRoute,
  CertificateRefused,
  type Edge,
  isHostName,
  NameRefused,
  type Route,
  type RouteMeant,
  RouteRefused,
  type ServedCertificate,
  type ServedName,
  SettingsRefused,
  type WellKnownAnswers,
} from './port.ts'
import { checkedCertificate } from './served-certificate.ts'
import { type SettingsLines, settingsLines, settingsRemoval } from './settings-lines.ts'

/** A name has at most 253 characters, a request line 8 KB. */
const hostsPerRequest = 30

/** Checking a certificate takes a few tenths of a millisecond. */
const certificatesPerTurn = 50

/** Ten thousand certificates are 40 MB, which the proxy reads, stores and writes. */
const allCertificatesMs = 30_000

/** The edge as nginx with our Lua router, over its control socket. Every call throws an Error when the proxy is unreachable, and
 * RouteRefused, NameRefused, CertificateRefused or SettingsRefused when it refuses what it is sent. */
export function nginxEdge(controlSocket: string): Edge {
  const send = (method: 'PUT' | 'POST', path: string, body: string, Refused: RefusalClass, deadlineMs?: number) =>
    control(controlSocket, { method, path, body, Refused, deadlineMs })
  const read = (path: string) => control(controlSocket, { method: 'GET', path, Refused: Error })

  /** The records of a table: all, or those of some hosts. */
  async function listed<T>(path: string, hosts?: readonly string[]): Promise<T[]> {
    if (!hosts) return recordsIn(await read(path))
    const names = hosts.filter(host => isHostName(withoutWildcard(host)))
    const records: T[] = []
    for (let at = 0; at < names.length; at += hostsPerRequest) {
      const batch = names.slice(at, at + hostsPerRequest)
      records.push(...recordsIn<T>(await read(`${path}?hosts=${batch.join(',')}`)))
    }
    return records
  }

  // A proxy of before refuses lines that name an account: its applications have their own shares until it is replaced.
  async function sendRoutes(method: 'PUT' | 'POST', routes: readonly Route[]): Promise<void> {
    const sent = (lines: readonly Route[]) => send(method, '/routes', lines.map(line).join('\n'), RouteRefused)
    await sent(routes).catch(error => {
      if (!(error instanceof RouteRefused) || routes.every(({ account }) => account === undefined)) throw error
      return sent(routes.map(({ account: _, ...before }) => before))
    })
  }

  async function standing(): ReturnType<Edge['standing']> {
    const text = await read('/mark').catch(unlessOlder)
    return { id: null, ...(text === null ? { run: '', mark: null } : JSON.parse(text)) }
  }

  // Pages first: a proxy that has a version of the rules has everything of it.
  async function sendSettings({ rules, pages }: SettingsLines): Promise<void> {
    for (const page of pages) await send('POST', '/pages', page, SettingsRefused)
    await send('POST', '/settings', rules, SettingsRefused)
  }

  return {
    async setRoute(route) {
      await sendRoutes('POST', [route])
    },
    async removeRoute(host, only) {
      if (!isHostName(host)) return
      const remove = (meant?: RouteMeant) => send('POST', '/routes', removal(host, meant), RouteRefused)
      try {
        await remove(only)
      } catch (error) {
        if (!only || !(error instanceof RouteRefused) || (await standing()).id !== null) throw error
        // A proxy without an id removes by the name alone, so the condition is looked at here.
        const [now] = await listed<Route>('/routes', [host])
        if (now?.appId === only.appId && (only.port ?? now.port) === now.port) await remove()
      }
    },
    async syncRoutes(routes) {
      await sendRoutes('PUT', routes)
    },
    listRoutes: () => listed('/routes'),
    findRoutes: hosts => listed('/routes', hosts),
    async setName(name) {
      await send('POST', '/names', nameLine(name), NameRefused)
    },
    async removeName(host) {
      if (isHostName(host)) await send('POST', '/names', removal(host), NameRefused)
    },
    async syncNames(all) {
      await send('PUT', '/names', all.map(nameLine).join('\n'), NameRefused)
    },
    listNames: hosts => listed('/names', hosts),
    standing,
    async setMark(run, mark) {
      await send('PUT', '/mark', `${run} ${mark}`, RouteRefused).catch(unlessOlder)
    },
    async setCertificate(certificate) {
      await send('POST', '/certificates', certificateLine(certificate), CertificateRefused)
    },
    async removeCertificate(host) {
      if (isHostName(withoutWildcard(host))) await send('POST', '/certificates', removal(host), CertificateRefused)
    },
    async syncCertificates(certificates) {
      const lines: string[] = []
      for (const certificate of certificates) {
        lines.push(certificateLine(certificate))
        if (lines.length % certificatesPerTurn === 0) await otherWork()
      }
      await send('PUT', '/certificates', lines.join('\n'), CertificateRefused, allCertificatesMs)
    },
    listCertificates: hosts => listed('/certificates', hosts),
    async setSettings(settings) {
      await sendSettings(settingsLines(settings))
    },
    async removeSettings(host) {
      if (isHostName(host)) await sendSettings(settingsRemoval(host))
    },
    listSettings: hosts => listed('/settings', hosts),
    async setAnswers(answers) {
      await send('PUT', '/answers', answerLines(answers), RangeError)
    },
  }
}

const recordsIn = <T>(text: string): T[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(row => JSON.parse(row))

const removal = (host: string, { appId, port }: Partial<RouteMeant> = {}): string =>
  JSON.stringify({ host, appId, port, removed: true })

/** The proxy's line of a route. Throws RouteRefused for a route that it could not read or reach. */
function line(route: Route): string {
  assertRoute(route)
  const { host, appId, address, port, version, account } = route
  return JSON.stringify({ host, appId, address, port, version, account })
}

/** The proxy's line of a custom name. Throws NameRefused for one that it could not read. */
function nameLine(name: ServedName): string {
  assertName(name)
  const { host, members } = name
  return JSON.stringify({ host, members })
}

/** The proxy's line of a certificate. Throws CertificateRefused for one that clients would not accept. */
function certificateLine(certificate: ServedCertificate): string {
  const { host, version, chain, key } = checkedCertificate(certificate)
  return JSON.stringify({ host, version, chain, key })
}

function answerLines(answers: WellKnownAnswers): string {
  return Object.entries(answers)
    .filter(([, proof]) => proof !== null)
    .map(([kind, proof]) => JSON.stringify({ kind, proof }))
    .join('\n')
}
