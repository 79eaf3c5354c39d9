import { request } from 'node:http'
import { isIP } from 'node:net'
import type { Edge, Route } from './edge.ts'

// The answer takes under a millisecond; a whole table of 10,000 routes some tens.
const deadlineMs = 5_000

/** The edge as nginx with our Lua router, spoken to over its control socket. Every call throws an Error when the proxy is away. */
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
      const text = await send(controlSocket, 'GET')
      return text
        .split('\n')
        .filter(Boolean)
        .map(row => JSON.parse(row) as Route)
    },
  }
}

/** The proxy's row of a route. Throws an Error for what the proxy could not read or reach. */
function line({ host, appId, address, port }: Route): string {
  if (!isHostName(host)) throw new Error(`Not a host name in lower case: ${JSON.stringify(host)}`)
  if (!/^[\w-]+$/.test(appId)) throw new Error(`Not an application id: ${JSON.stringify(appId)}`)
  if (!isIP(address)) throw new Error(`A route needs an IP address (HOST_ADDRESS), not ${JSON.stringify(address)}`)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Error(`Not a port: ${port}`)
  return JSON.stringify({ host, appId, address, port })
}

function isHostName(host: string): boolean {
  return host.length <= 253 && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/.test(host)
}

function send(socketPath: string, method: string, body = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'control', 'content-length': Buffer.byteLength(body) }
    const call = request({ socketPath, method, path: '/routes', headers, agent: false }, answer => {
      const chunks: Buffer[] = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('error', reject)
      answer.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const status = answer.statusCode ?? 0
        if (status >= 200 && status < 300) resolve(text)
        else reject(new Error(`The proxy refused the change of its routes (${status}): ${text.slice(0, 300)}`))
      })
    })
    call.setTimeout(deadlineMs, () => call.destroy(new Error(`The proxy did not answer within ${deadlineMs} ms`)))
    call.on('error', error =>
      reject(new Error(`The proxy's control socket failed: ${error.message}`, { cause: error })),
    )
    call.end(body)
  })
}
