import { nginxEdge } from '../activities/edge.nginx.ts'
import { parseConfig } from '../policy/config.ts'
import { openTemporal } from './connect.ts'
import { hostQueue, platformQueue } from './lanes.ts'
import { isPolled } from './poller-health.ts'

/** Asks one process of an installation in containers whether it works; exit code 0 = yes. The argument names the process. */
const config = parseConfig(process.env, process.cwd())

async function polled(queue: string): Promise<boolean> {
  const client = openTemporal(config)
  try {
    return await isPolled(client, queue)
  } finally {
    await client.connection.close()
  }
}

const checks: Record<string, () => Promise<boolean>> = {
  api: async () => (await fetch(`http://127.0.0.1:${config.ports.public}/pub/status`)).ok,
  worker: () => polled(platformQueue(config.queuePrefix)),
  host: () => polled(hostQueue(config.queuePrefix, config.host.id)),
  proxy: async () => Boolean(await nginxEdge(config.edge.controlSocket).listRoutes()),
}

const name = process.argv[2] ?? ''
const check = checks[name]
if (!check) throw new Error(`Name a process: ${Object.keys(checks).join(', ')}`)
const healthy = await check()
if (!healthy) console.error(`${name} does not work`)
process.exit(healthy ? 0 : 1)
