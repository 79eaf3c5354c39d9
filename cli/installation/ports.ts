import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** The ports of an installation, by the setting that fixes them. */
export const portDefaults = {
  API_PORT: 4000,
  BLOB_PORT: 4001,
  S3_PORT: 4002,
  FILES_PORT: 4003,
  PUBLIC_PORT: 4004,
  EDGE_PORT: 8080,
  POSTGRES_PORT: 5432,
  TEMPORAL_PORT: 7233,
  TEMPORAL_UI_PORT: 8233,
  S3RVER_PORT: 4568,
} as const

export type PortName = keyof typeof portDefaults
export type Ports = Record<PortName, number>

/** Below the range that the kernel hands out for outgoing connections, so that a port is still free at the next start. */
const highestPort = 32_000

/**
 * Chooses every port: what the environment says, else the one of the last start, else the default, else 10 higher and so on
 * while taken. A port that the environment names is used as it is.
 */
export async function choosePorts(env: Record<string, string | undefined>, last: Partial<Ports>): Promise<Ports> {
  const chosen = {} as Ports
  for (const name of Object.keys(portDefaults) as PortName[]) {
    const named = Number(env[name] ?? 0)
    chosen[name] = named || (await freeFrom(last[name] ?? portDefaults[name], new Set(Object.values(chosen))))
  }
  return chosen
}

async function freeFrom(first: number, taken: Set<number>): Promise<number> {
  for (let port = first; port === first || port < highestPort; port += 10) {
    if (!taken.has(port) && (await isFree(port))) return port
  }
  return unusedPort()
}

/** Above what services commonly listen on. */
const lowestUnusedPort = 10_000

/**
 * A port that nothing listens on, kept for this process while it lives. Unlike a port that the kernel picks, no outgoing
 * connection and no container can take it before its part listens.
 */
export async function unusedPort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowestUnusedPort, highestPort)
    if (!reserved.has(port) && (await isFree(port))) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const listens = await freePort(port).then(
    () => true,
    () => false,
  )
  return listens && (await reserve(port))
}

const reserved = new Set<number>()

/**
 * Keeps a chosen port from other installations of this machine until its part listens there: two that start at once would
 * find the same ports free. The reservation is an abstract socket, gone with this process, however that ends.
 */
function reserve(port: number): Promise<boolean> {
  if (reserved.has(port)) return Promise.resolve(true)
  const server = createServer().unref()
  return new Promise(resolve => {
    server.once('error', () => resolve(false))
    server.listen(`\0berth-port-${port}`, () => {
      reserved.add(port)
      resolve(true)
    })
  })
}

/** Resolves to the port when it can be listened on (0 = any free one); rejects when it is taken. */
export function freePort(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    // All addresses: a port that another program holds on any of them is not ours.
    server.listen({ port, host: '0.0.0.0', exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : port))
    })
  })
}
