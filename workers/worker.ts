import { nginxEdge } from '../activities/edge/nginx.ts'
import { openObjectStore } from '../activities/objects/select.ts'
import { openDatabase } from '../db/database.ts'
import { openLog, openTemporal, runUntilSignal } from './connect.ts'
import { withCrashPoints } from './crash-points.ts'
import { startPlatformWorker } from './platform-worker.ts'
import { processConfig } from './process-config.ts'
import { demandSameInstallation } from './same-installation.ts'
import { temporalDatabaseLanes, temporalLanes } from './temporal/lanes.ts'

/** The process `worker`. */
const config = processConfig(process.env)
const log = openLog(config, 'worker')
const life = runUntilSignal(log, 12)

const db = openDatabase({ url: config.databaseUrl, pool: config.databasePool, applicationName: 'berth-worker' })
life.onEnd(() => db.destroy())

const store = await openObjectStore(config.objectStore)
await demandSameInstallation({ db, config, log, store, folders: [config.dataDir] })

const client = openTemporal(config)
const worker = await startPlatformWorker({
  config,
  log,
  db,
  client,
  lanes: withCrashPoints('lanes', temporalLanes(client, { queuePrefix: config.queuePrefix })),
  databaseLanes: withCrashPoints('database-lanes', temporalDatabaseLanes(client, { queuePrefix: config.queuePrefix })),
  edge: withCrashPoints('edge', nginxEdge(config.edge.controlSocket)),
  store,
  workflowBundle: process.env.WORKFLOW_BUNDLE,
})
life.onEnd(() => worker.stop())
worker.ended.catch(error => life.end(`the worker failed: ${error}`, 1))

life.ready()
log.info({}, 'worker ready')
