import { request } from 'node:http'
import {
  assertName,
  assertRoute,
  type Edge,
  isHostName,
  NameRefused,
  type Route,
  RouteRefused,
  type ServedName,
} from './port.ts'

// An answer takes under a millisecond; a whole table of 10,000 routes takes tens of milliseconds.
const deadlineMs = 5_000

/** A name has at most 253 characters, a request line 8 KB. */
const hostsPerRequest = 30

/** Status of the control location for a request that it cannot read or store. */
const refused = 422

const names = '/names'

const refusalBy = (path: string, why: string) => (path === names ? new NameRefused(why) : new RouteRefused(why))

class RequestFailed extends Error {
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

/** A proxy of an earlier version, which is replaced a moment later, does not support marks. */
function unlessOlder(error: unknown): null {
  if (error instanceof RequestFailed && error.status === 404) return null
  throw error
}

/** The edge as nginx with our Lua router, over its control socket. Every call throws an Error when the proxy is unreachable, and
 * RouteRefused or NameRefused when it refuses the records. */
export function nginxEdge(controlSocket: string): Edge {
  return {
    async setRoute(route) {
      await send(controlSocket, 'POST', line(route))
    },
    async removeRoute(host) {
      if (isHostName(host)) await send(controlSocket, 'POST', JSON.stringify({ host, removed: true }))
    },
    async syncRoutes(routes) {
      await send(controlSocket, 'PUT', routes.map(line).join('\n'))
    },
    async listRoutes() {
      return recordsIn<Route>(await send(controlSocket, 'GET'))
    },
    async findRoutes(hosts) {
      const routes: Route[] = []
      const names = hosts.filter(isHostName)
      for (let at = 0; at < names.length; at += hostsPerRequest) {
        const batch = names.slice(at, at + hostsPerRequest)
        routes.push(...recordsIn<Route>(await send(controlSocket, 'GET', '', `/routes?hosts=${batch.join(',')}`)))
      }
      return routes
    },
    async setName(name) {
      await send(controlSocket, 'POST', nameLine(name), names)
    },
    async removeName(host) {
      if (isHostName(host)) await send(controlSocket, 'POST', JSON.stringify({ host, removed: true }), names)
    },
    async syncNames(all) {
      await send(controlSocket, 'PUT', all.map(nameLine).join('\n'), names)
    },
    async listNames() {
      return recordsIn<ServedName>(await send(controlSocket, 'GET', '', names))
    },
    async standing() {
      const text = await send(controlSocket, 'GET', '', '/mark').catch(unlessOlder)
      return text === null ? { run: '', mark: null } : JSON.parse(text)
    },
    async setMark(run, mark) {
      await send(controlSocket, 'PUT', `${run} ${mark}`, '/mark').catch(unlessOlder)
    },
  }
}

const recordsIn = <T>(text: string): T[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(row => JSON.parse(row))

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

function send(socketPath: string, method: string, body = '', path = '/routes'): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'control', 'content-length': Buffer.byteLength(body) }
    const call = request({ socketPath, method, path, headers, agent: false }, answer => {
      const chunks: Buffer[] = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('error', reject)
      answer.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const status = answer.statusCode ?? 0
        if (status >= 200 && status < 300) resolve(text)
        else if (status === refused) reject(refusalBy(path, `the proxy refused it: ${text.slice(0, 300)}`))
        else reject(new RequestFailed(`The proxy failed a request (${status}): ${text.slice(0, 300)}`, status))
      })
    })
    call.setTimeout(deadlineMs, () => call.destroy(new Error(`The proxy did not answer within ${deadlineMs} ms`)))
    call.on('error', error =>
      reject(new Error(`The proxy's control socket failed: ${error.message}`, { cause: error })),
    )
    call.end(body)
  })
}
