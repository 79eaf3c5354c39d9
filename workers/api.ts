import cluster from 'node:cluster'
import { openLog, runUntilSignal } from './connect.ts'
import { processConfig } from './process-config.ts'

/** The process `api`: serves itself, or starts `API_PROCESSES` others that share its ports. */
const config = processConfig(process.env)

if (cluster.isPrimary && config.apiProcesses > 1) {
  const life = runUntilSignal(openLog(config, 'api'), 12)
  let listening = 0
  let ending = false
  for (let n = 0; n < config.apiProcesses; n++) cluster.fork()
  cluster.on('message', (_, message) => {
    if (message?.ready && ++listening === config.apiProcesses) life.ready()
  })
  cluster.on('exit', () => {
    if (!ending) setTimeout(() => cluster.fork(), 500)
  })
  life.onEnd(async () => {
    ending = true
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGTERM')
    while (Object.keys(cluster.workers ?? {}).length > 0) await new Promise(resolve => setTimeout(resolve, 50))
  })
} else {
  const { serveApi } = await import('./api-server.ts')
  await serveApi(config)
}
