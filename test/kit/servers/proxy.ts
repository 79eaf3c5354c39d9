import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { nginxEdge } from '../../../activities/edge/nginx.ts'
import type { Edge } from '../../../activities/edge/port.ts'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { errorsName } from '../../../edge/log-format.ts'
import { type EdgeOptions, prepareEdge } from '../../../edge/prepare.ts'
import { type Config, parseConfig } from '../../../policy/config.ts'

export interface TestProxy {
  config: Config
  edge: Edge
  port: number
  /** Where it listens for https, when `EDGE_TLS` is set. */
  tlsPort: number
  /** Starts it after `kill`, on the same files and port. */
  start(): Promise<void>
  kill(signal: NodeJS.Signals): Promise<void>
  /** Lets it read its configuration again. */
  reload(): void
  /** Parsed lines of the access log, once at least `count` of them are there. */
  accessLog(count: number): Promise<Record<string, unknown>[]>
  /** What it wrote to its log, as a process. */
  errors(): string
  /** What it wrote about requests to applications. */
  applicationErrors(): string
  stop(): Promise<void>
}

/** A real nginx of its own on a free port, with its files in a temporary folder. */
export async function startProxy(
  settings: Record<string, string> = {},
  options: (config: Config) => EdgeOptions = () => ({}),
): Promise<TestProxy> {
  const dataDir = await mkdtemp(join(tmpdir(), 'berth-proxy-'))
  await chmod(dataDir, 0o711)
  const [port, tlsPort] = [await unusedPort(), await unusedPort()]
  const ports = { EDGE_PORT: String(port), EDGE_TLS_PORT: String(tlsPort) }
  const config = parseConfig({ BERTH_DATA: dataDir, ...ports, EDGE_WORKERS: '2', ...settings }, '/')
  const edge = nginxEdge(config.edge.controlSocket)
  let child: ChildProcess
  let errors = ''

  const start = async () => {
    const { command, args } = await prepareEdge(config, options(config))
    child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    child.stderr?.on('data', chunk => {
      errors += chunk
    })
    await answering(edge, child, () => errors)
  }
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
    // A master that was killed leaves its workers behind for a moment, and they still hold the port.
    for (let look = 0; look < 400 && (await listens(port)); look++) await sleep(25)
  }
  await start()
  return {
    config,
    edge,
    port,
    tlsPort,
    start,
    kill,
    reload: () => child.kill('SIGHUP'),
    errors: () => errors,
    applicationErrors: () => readFileSync(join(dataDir, 'proxy', errorsName), 'utf8'),
    accessLog: count => readLog(join(dataDir, 'proxy/access'), count),
    async stop() {
      await kill('SIGTERM')
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** A proxy of an earlier version: that of now without what these changes take from its Lua files, by their names. */
export async function startOlderProxy(changes: Record<string, [from: RegExp, to: string][]>): Promise<TestProxy> {
  const proxy = await startProxy()
  await proxy.kill('SIGTERM')
  const folder = join(proxy.config.dataDir, 'proxy')
  const lua = join(proxy.config.dataDir, 'lua')
  await cp('edge/lua', lua, { recursive: true })
  await chmod(lua, 0o755)
  const change = async (path: string, from: RegExp, to: string) => {
    const text = await readFile(path, 'utf8')
    if (text.search(from) < 0) throw new Error(`${path} has no ${from}`)
    await writeFile(path, text.replace(from, to))
  }
  for (const [name, pairs] of Object.entries(changes))
    for (const [from, to] of pairs) await change(join(lua, name), from, to)
  await change(join(folder, 'nginx.conf'), /[^"; ]*\/edge\/lua/g, lua)
  const args = ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')]
  const child = spawn(proxy.config.edge.nginx ?? 'nginx', args, { stdio: 'ignore' })
  await answering(proxy.edge, child, () => 'an earlier version')
  return {
    ...proxy,
    async stop() {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      await proxy.stop()
    },
  }
}

/** The status with which the proxy answers a line that is posted to one of its tables, past the adapter and its checks. */
export function statusOfLine(
  { config }: Pick<TestProxy, 'config'>,
  table: string,
  line: string,
): Promise<number | undefined> {
  const { controlSocket: socketPath } = config.edge
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method: 'POST', path: `/${table}`, headers: { host: 'control' } })
    sent.on('response', answer => resolve(answer.resume().statusCode)).on('error', reject)
    sent.end(line)
  })
}

function listens(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

async function answering(edge: Edge, child: ChildProcess, errors: () => string): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    if (child.exitCode !== null) break
    if (
      await edge.listRoutes().then(
        () => true,
        () => false,
      )
    )
      return
    await sleep(25)
  }
  throw new Error(`The proxy did not start: ${errors()}`)
}

async function readLog(folder: string, count: number): Promise<Record<string, unknown>[]> {
  for (let attempt = 0; ; attempt++) {
    const files = (await readdir(folder)).sort()
    const texts = await Promise.all(files.map(name => readFile(join(folder, name), 'utf8')))
    const lines = texts.join('').split('\n').filter(Boolean)
    if (lines.length >= count || attempt === 100) return lines.map(line => JSON.parse(line))
    await sleep(20)
  }
}
