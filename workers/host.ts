import { join } from 'node:path'
import { parseConfig } from '../policy/config.ts'
import { openLog, runProcess } from './connect.ts'
import { openHost } from './host-parts.ts'
import { startHost } from './host-worker.ts'
import { demandSameInstallation } from './same-installation.ts'

/** The process `host`: one container host. */
const config = parseConfig(process.env, process.cwd())
const log = openLog(config, 'host')
const life = runProcess(log, 12)

const parts = await openHost(config, log)
life.onEnd(() => parts.close())

const folders = [config.dataDir, join(config.dataDir, 'hosts', config.host.id)]
await demandSameInstallation({ ...parts, folders })

const host = await startHost(parts)
life.onEnd(() => host.stop())
host.ended.catch(error => life.end(`the worker failed: ${error}`, 1))

life.ready()
log.info({ hostId: config.host.id, protections: parts.protections }, 'host ready')
