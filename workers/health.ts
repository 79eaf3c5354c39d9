import { nginxEdge } from '../activities/edge/nginx.ts'
import { parseConfig } from '../policy/config.ts'
import { analyticsKey } from '../policy/keys.ts'
import { platformQueue, queuesOfHost } from '../workflows/ids.ts'
import { openTemporal } from './connect.ts'
import { unpolled } from './poller-health.ts'

/** Checks one process of an installation in containers; exit code 0 = healthy. The argument names the process. */
const config = parseConfig(process.env, process.cwd())

async function polled(...queues: string[]): Promise<string | null> {
  const client = openTemporal(config)
  try {
    const silent = await unpolled(client, queues)
    return silent.length === 0 ? null : `no worker polls ${silent.join(', ')}`
  } finally {
    await client.connection.close()
  }
}

/** Each resolves to the problem, or to null. */
const checks: Record<string, () => Promise<string | null>> = {
  async api() {
    const { ok, status } = await fetch(`http://127.0.0.1:${config.ports.public}/pub/status`)
    return ok ? null : `its status page answers with ${status}`
  },
  worker: () => polled(platformQueue(config.queuePrefix)),
  host: () => polled(...Object.values(queuesOfHost(config.queuePrefix, config.host.id))),
  async analytics() {
    const headers = { Authorization: `Bearer ${analyticsKey(config.masterKey)}` }
    const { ok, status } = await fetch(`http://127.0.0.1:${config.analytics.port}/state`, { headers })
    return ok ? null : `it answers with ${status}`
  },
  proxy: () =>
    nginxEdge(config.edge.controlSocket)
      .listRoutes()
      .then(() => null),
}

const name = process.argv[2] ?? ''
const check = checks[name]
if (!check) throw new Error(`Name a process: ${Object.keys(checks).join(', ')}`)
const problem = await check()
if (problem !== null) console.error(`${name} is not healthy: ${problem}`)
process.exit(problem === null ? 0 : 1)
