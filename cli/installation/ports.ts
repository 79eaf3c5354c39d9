import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** The default ports of an installation, by the setting that overrides them. */
export const portDefaults = {
  API_PORT: 4000,
  BLOB_PORT: 4001,
  S3_PORT: 4002,
  FILES_PORT: 4003,
  PUBLIC_PORT: 4004,
  ANALYTICS_PORT: 4005,
  TOY_MODEL_PORT: 4006,
  EDGE_PORT: 8080,
  EDGE_TLS_PORT: 8443,
  POSTGRES_PORT: 5432,
  TEMPORAL_PORT: 7233,
  TEMPORAL_UI_PORT: 8233,
  S3RVER_PORT: 4568,
} as const

export type PortName = keyof typeof portDefaults
export type Ports = Record<PortName, number>

/** Below the range of the kernel's ports for outgoing connections, so that a port is still free at the next start. */
const maxPort = 32_000

/**
 * Chooses every port: the one in the environment, else that of the last start, else the default. A port that is in use is raised by 10
 * until it is free, except one from the environment.
 */
export async function choosePorts(env: Record<string, string | undefined>, last: Partial<Ports>): Promise<Ports> {
  const chosen = {} as Ports
  for (const name of Object.keys(portDefaults) as PortName[]) {
    const given = Number(env[name] ?? 0)
    chosen[name] = given || (await freeFrom(last[name] ?? portDefaults[name], new Set(Object.values(chosen))))
  }
  return chosen
}

async function freeFrom(first: number, taken: Set<number>): Promise<number> {
  for (let port = first; port === first || port < maxPort; port += 10) {
    if (!taken.has(port) && (await isFree(port))) return port
  }
  return unusedPort()
}

/** Above the ports that services commonly use. */
const minUnusedPort = 10_000

/**
 * A port that nothing listens on, reserved while this process lives. Unlike a port that the kernel picks, no outgoing connection
 * and no container can take it before its part listens.
 */
export async function unusedPort(): Promise<number> {
  for (;;) {
    const port = randomInt(minUnusedPort, maxPort)
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
 * Reserves a chosen port against other installations of this machine until its part listens: two that start concurrently would
 * find the same ports free. The reservation is an abstract socket, which ends with this process, however that ends.
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

/** Resolves to the port if it is free (0 = any free one); rejects if it is in use. */
export function freePort(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    // On all addresses: a port that another program uses on any of them is not free.
    server.listen({ port, host: '0.0.0.0', exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : port))
    })
  })
}
