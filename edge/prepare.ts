import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Owner } from '../lib/folders/owner.ts'
import type { Config } from '../policy/config.ts'
import { proxyConnections } from '../policy/proxy-connections.ts'
import { edgeConfig } from './edge-config.ts'
import { inspectNginx } from './nginx-binary.ts'
import { makeProxyFolder, placeFile, proxyId } from './proxy-folder.ts'
import { type SurfaceTargets, surfaceTargets } from './surfaces.ts'
import { unusedCertificate } from './tls-lines.ts'
import { makeUnusedCertificate } from './unused-certificate.ts'

export interface EdgeOptions {
  /** Path or name of the nginx binary. */
  nginx?: string
  /** The addresses of the API processes; default: one process on the configured ports. */
  targets?: SurfaceTargets
  /** System user of nginx's workers when Berth runs as root. */
  user?: string
  /** Connections of each worker; default: the number in policy/. */
  workerConnections?: number
}

// A unix socket's address holds 108 bytes with its closing zero.
const maxSocketPathBytes = 107

/**
 * Writes all files of the proxy below `<dataDir>/proxy` and returns the process to spawn. It stays in the foreground and logs
 * to stderr; SIGQUIT ends it after the requests in progress (8 s at most), SIGTERM immediately, SIGHUP reloads the configuration.
 * Call it before every start: a killed proxy leaves its socket behind. Throws an Error that says what to change when nginx or
 * its Lua module is missing, or the folder cannot be reached.
 */
export async function prepareEdge(
  config: Config,
  options: EdgeOptions = {},
): Promise<{ command: string; args: string[] }> {
  const nginx = options.nginx ?? config.edge.nginx ?? 'nginx'
  const folder = join(config.dataDir, 'proxy')
  const owner = process.geteuid?.() === 0 ? await systemUser(options.user ?? 'www-data') : null
  if (Buffer.byteLength(config.edge.controlSocket) > maxSocketPathBytes)
    throw new Error(`The path of EDGE_CONTROL_SOCKET is over ${maxSocketPathBytes} bytes: ${config.edge.controlSocket}`)
  const build = await inspectNginx(nginx)
  await mkdir(config.dataDir, { recursive: true, mode: 0o711 })
  await makeProxyFolder(folder, config.edge, owner)
  if (owner) await assertReachable(folder)
  await makePrivate(dirname(config.edge.controlSocket))
  await rm(config.edge.controlSocket, { force: true })
  const text = edgeConfig({
    settings: config.edge,
    run: randomBytes(8).toString('hex'),
    ...{ folder, id: await proxyId(folder) },
    scripts: fileURLToPath(new URL('./lua', import.meta.url)),
    nginx: build,
    user: owner?.name ?? null,
    targets: options.targets ?? surfaceTargets(config.bind, [config.ports]),
    appsDomain: config.appsDomain,
    allowPlainHttp: config.allowPlainHttp,
    workerConnections: options.workerConnections ?? proxyConnections.ofWorker,
    limitScale: config.rateLimitScale,
  })
  if (config.edge.tls) await placeFile(join(folder, unusedCertificate), makeUnusedCertificate())
  const path = join(folder, 'nginx.conf')
  await placeFile(path, text)
  return { command: nginx, args: ['-p', folder, '-e', 'stderr', '-c', path] }
}

/** nginx creates its unix sockets with access for everyone; only their folder keeps other users out. A group may have been given access. */
async function makePrivate(path: string): Promise<void> {
  const created = await mkdir(path, { recursive: true })
  if (created) await chmod(path, 0o700)
  const { mode } = await stat(path)
  if (mode & 0o067)
    throw new Error(
      `Other users can enter ${path}, the folder of the proxy's control socket. Close it with: chmod 700 ${path}`,
    )
}

/** nginx's workers run as another user and must be able to reach their folder. */
async function assertReachable(folder: string): Promise<void> {
  for (let path = dirname(folder); ; path = dirname(path)) {
    const { mode } = await stat(path)
    if (!(mode & 0o001))
      throw new Error(
        `The proxy runs as another user, which cannot enter ${path}. Set BERTH_DATA to a folder elsewhere.`,
      )
    if (path === dirname(path)) return
  }
}

interface ProxyUser extends Owner {
  name: string
}

/** A row of the system's user table. Throws an Error when there is no such user. */
async function systemUser(name: string): Promise<ProxyUser> {
  const rows = (await readFile('/etc/passwd', 'utf8')).split('\n').map(row => row.split(':'))
  const row = rows.find(([user]) => user === name)
  if (!row) throw new Error(`The system has no user "${name}" for the proxy's workers.`)
  return { name, uid: Number(row[2]), gid: Number(row[3]) }
}
