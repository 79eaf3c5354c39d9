import { createServer, type IncomingMessage } from 'node:http'
import { labels } from '../../activities/containers/port.ts'
import { type Sleepers, startSleepers } from './sleepers.ts'

/**
 * A container engine with many containers that only sleep: answers what a host asks of it in a round, as Docker does, and does nothing.
 * Takes the rows of the applications from its parent process, and reports its address.
 */
interface Running {
  app: string
  owner: string
  release: number
  containerId: string
  port: number | null
  address: string | null
}

const began = new Date(Date.now() - 2 * 86_400_000).toISOString()

let sleepers: Sleepers | undefined

interface Message {
  hostId: string
  running: Running[]
  /** Where it listens: over TCP the kernel would look long for one of the few ports that thousands of connections leave. */
  socket: string
}

process.once('message', async ({ hostId, running, socket }: Message) => {
  if (process.getuid?.() === 0) sleepers = await startSleepers(running.map(one => one.containerId))
  else console.error('Not root: the host reads no counters of the kernel, and asks the engine for each.')
  const pidOf = (id: string) => sleepers?.pids.get(id) ?? process.pid
  const containers = new Map(running.map(one => [one.containerId, describe(one, hostId, pidOf(one.containerId))]))
  const byApp = new Map([...containers.values()].map(one => [one.listed.Labels[labels.app], [one]]))
  const listed = (url: URL) => {
    const { label = [] }: { label?: string[] } = JSON.parse(url.searchParams.get('filters') ?? '{}')
    const app = label.find(one => one.startsWith(`${labels.app}=`))?.slice(labels.app.length + 1)
    return app === undefined ? [...containers.values()] : (byApp.get(app) ?? [])
  }
  const byName = new Map([...containers.values()].map(one => [one.inspected.Name.slice(1), one]))
  const answers = (url: URL): unknown => {
    const [kind, id, verb] = url.pathname.split('/').slice(1)
    if (url.pathname === '/info')
      return { ServerVersion: '28', NCPU: 2, MemTotal: 8e9, CgroupDriver: 'systemd', LiveRestoreEnabled: true }
    if (url.pathname === '/version') return { Version: '28', ApiVersion: '1.48' }
    if (url.pathname === '/_ping') return 'OK'
    if (url.pathname === '/networks/bridge') return { Name: 'bridge', Created: began }
    if (kind === 'networks') return []
    if (url.pathname === '/containers/json') return listed(url).map(one => one.listed)
    const one = containers.get(id ?? '') ?? byName.get(id ?? '')
    if (kind === 'containers' && verb === 'json') return one?.inspected
    if (kind === 'containers' && verb === 'stats') return stats()
    return undefined
  }
  const waits = ({ url = '' }: IncomingMessage) => url.startsWith('/events') || url.includes('/attach')
  const server = createServer({ keepAliveTimeout: 60_000 }, (asked, answer) => {
    asked.resume()
    const url = new URL(asked.url ?? '/', 'http://engine')
    url.pathname = url.pathname.replace(/^\/v[\d.]+/, '')
    if (waits(asked)) return void answer.writeHead(200).flushHeaders()
    const body = answers(url)
    answer.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' })
    answer.end(JSON.stringify(body ?? { message: 'no such thing' }))
  })
  // A reader of what a program prints has a connection that is kept open.
  server.on('upgrade', (_, reader) => {
    reader.on('error', () => {})
    reader.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n')
  })
  server.listen({ path: socket, backlog: 4096 }, () => process.send?.({ url: `unix://${socket}` }))
})
process.on('disconnect', async () => {
  await sleepers?.end()
  process.exit()
})

function describe({ app, owner, release, containerId, port, address }: Running, hostId: string, pid: number) {
  const carried = {
    [labels.host]: hostId,
    [labels.app]: app,
    [labels.owner]: owner,
    [labels.release]: String(release),
    [labels.role]: 'app',
  }
  const name = `/berth-${app}-${release}`
  const published = port === null ? {} : { '80/tcp': [{ HostIp: address, HostPort: String(port) }] }
  return {
    listed: {
      Id: containerId,
      Names: [name],
      Image: 'node:22',
      Created: Math.floor(Date.parse(began) / 1000),
      Ports: port === null ? [] : [{ IP: address, PrivatePort: 80, PublicPort: port, Type: 'tcp' }],
      Labels: carried,
      State: 'running',
      Status: 'Up 2 days',
    },
    inspected: {
      Id: containerId,
      Name: name,
      Config: { Labels: carried },
      State: {
        ...{ Status: 'running', Running: true, Paused: false, OOMKilled: false, ExitCode: 0, Pid: pid },
        ...{ StartedAt: began, FinishedAt: '0001-01-01T00:00:00Z' },
      },
      NetworkSettings: { Ports: published },
    },
  }
}

function stats() {
  return {
    read: new Date().toISOString(),
    cpu_stats: { cpu_usage: { total_usage: process.uptime() * 1e7 } },
    memory_stats: { usage: 30e6, limit: 256e6, stats: {} },
    blkio_stats: { io_service_bytes_recursive: [] },
    networks: {},
  }
}
