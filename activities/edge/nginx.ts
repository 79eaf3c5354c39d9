import { request } from 'node:http'
import { assertRoute, type Edge, isHostName, type Route, RouteRefused } from './port.ts'

// The answer takes under a millisecond; a whole table of 10,000 routes some tens.
const deadlineMs = 5_000

/** A name has 253 characters at most, a request line 8 KB. */
const hostsAtOnce = 30

/** What the control location answers to what it could not read or keep. */
const refused = 422

class Unanswered extends Error {
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

/** A proxy of an earlier version, which is replaced a moment later, knows of no marks. */
function unlessOlder(error: unknown): null {
  if (error instanceof Unanswered && error.status === 404) return null
  throw error
}

/** The edge as nginx with our Lua router, spoken to over its control socket. Every call throws an Error when the proxy is away, and
 * RouteRefused when it answers that it will not have what it was given. */
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
      return routesIn(await send(controlSocket, 'GET'))
    },
    async findRoutes(hosts) {
      const found: Route[] = []
      const named = hosts.filter(isHostName)
      for (let at = 0; at < named.length; at += hostsAtOnce) {
        const some = named.slice(at, at + hostsAtOnce)
        found.push(...routesIn(await send(controlSocket, 'GET', '', `/routes?hosts=${some.join(',')}`)))
      }
      return found
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

const routesIn = (text: string): Route[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(row => JSON.parse(row))

/** The proxy's row of a route. Throws RouteRefused for what it could not read or reach. */
function line(route: Route): string {
  assertRoute(route)
  const { host, appId, address, port } = route
  return JSON.stringify({ host, appId, address, port })
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
        else if (status === refused) reject(new RouteRefused(`the proxy refused it: ${text.slice(0, 300)}`))
        else reject(new Unanswered(`The proxy failed a request (${status}): ${text.slice(0, 300)}`, status))
      })
    })
    call.setTimeout(deadlineMs, () => call.destroy(new Error(`The proxy did not answer within ${deadlineMs} ms`)))
    call.on('error', error =>
      reject(new Error(`The proxy's control socket failed: ${error.message}`, { cause: error })),
    )
    call.end(body)
  })
}
