import { parseConfig } from '../policy/config.ts'
import { openLog, runProcess } from './connect.ts'
import { openHost } from './host-parts.ts'
import { startHost } from './host-worker.ts'

/** The process `host`: one container host. */
const config = parseConfig(process.env, process.cwd())
const log = openLog(config, 'host')
const life = runProcess(log, 12)

const parts = await openHost(config, log)
life.onEnd(() => parts.close())

const host = await startHost(parts).catch(async error => {
  log.fatal({ err: error }, 'the host does not start')
  await life.end(error.message, 1)
  throw error
})
life.onEnd(() => host.stop())
host.ended.catch(error => life.end(`the worker failed: ${error}`, 1))

life.ready()
log.info({ hostId: config.host.id, protections: parts.protections }, 'host ready')
