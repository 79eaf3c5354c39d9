import { openLog, runUntilSignal } from './connect.ts'
import { hostFolder, openHost } from './host/host-parts.ts'
import { startHost } from './host/host-worker.ts'
import { processConfig } from './process-config.ts'
import { demandSameInstallation } from './same-installation.ts'

/** The process `host`: one container host. */
const config = processConfig(process.env)
const log = openLog(config, 'host')
const life = runUntilSignal(log, 12)

const parts = await openHost(config, log)
life.onEnd(() => parts.close())

const folders = [config.dataDir, hostFolder(config)]
await demandSameInstallation({ ...parts, folders })

const host = await startHost(parts).catch(async error => {
  log.fatal({ err: error }, 'the host does not start')
  await life.end(error.message, 1)
  throw error
})
life.onEnd(() => host.stop())
host.ended.catch(error => life.end(`the worker failed: ${error}`, 1))

life.ready()
log.info({ hostId: config.host.id, protections: parts.protections }, 'host ready')
