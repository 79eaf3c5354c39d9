import { join } from 'node:path'
import { confirmFolder, folderMark } from '../../activities/installation/installation.ts'
import { migrate, openDatabase } from '../../db/database.ts'
import { allowProcesses } from '../../db/process-role.ts'
import { surfaceTargets } from '../../edge/surfaces.ts'
import { databaseName } from '../../policy/installation/installation.ts'
import { valuesInPlace } from '../../policy/installation/outside-secrets.ts'
import { heapFlags } from '../../workers/supervisor/heap.ts'
import type { ProcessSpec } from '../../workers/supervisor/supervised-process.ts'
import type { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { threadPool } from '../../workers/supervisor/thread-pool.ts'
import { adopt } from '../adopt.ts'
import { adoptDatabasePassword } from '../secrets/root-rotation.ts'
import { ensureDocker } from '../services/engine/docker.ts'
import { ensureGit } from '../services/git.ts'
import { ownObjectStore } from '../services/object-store.ts'
import { ensureDatabase, postgresProcess, postgresUrl, setOwnerPassword } from '../services/postgres.ts'
import { nginxBinary, proxyProcess } from '../services/proxy.ts'
import { externalTemporalAnswers, temporalProcess } from '../services/temporal.ts'
import { ensureToyModel, toyModelProcess } from '../services/toy-model.ts'
import type { Say } from '../terminal/terminal.ts'
import { ensureFirstAccount } from './first-account.ts'
import { checkout, dataDirOf, type Installation, ownerSetting, ownerUrl } from './installation.ts'
import { outsideValues } from './secrets.ts'

/** Starts every part and every process, concurrently where their dependencies allow. Resolves when all answer. */
export async function startPlatform(installation: Installation, supervisor: Supervisor, say: Say): Promise<void> {
  const stores = await startStores(installation, supervisor, say)
  const needs = stores.map(({ name }) => name)
  const { config, settings } = installation
  const start = (name: string, after = needs) => supervisor.start(ourProcess(name, name, after, settings))
  // It reads what the proxy writes, and needs nothing else.
  const analytics = config.analytics.isOn ? [start('analytics', ['proxy'])] : []
  await Promise.all([
    ...['api', 'worker', 'host'].map(name => start(name)),
    ...analytics,
    ...(installation.runsToyModel ? [startToyModel(installation, supervisor, say)] : []),
  ])
}

/** It is in the cache already: what was missing has been reported together with everything else. */
async function startToyModel({ ports }: Installation, supervisor: Supervisor, say: Say): Promise<void> {
  await supervisor.start(toyModelProcess(await ensureToyModel(say), ports.TOY_MODEL_PORT))
}

/** Starts what our processes depend on: the database (migrated, with its first account), Temporal, the object store, the engine, the proxy. */
async function startStores(installation: Installation, supervisor: Supervisor, say: Say): Promise<ProcessSpec[]> {
  const { config, ports, external } = installation
  const specs: ProcessSpec[] = []
  const start = async (spec: ProcessSpec) => {
    specs.push(spec)
    await supervisor.start(spec)
  }
  const database = async () => {
    if (!external.postgres) {
      const { databasePassword: password, nextDatabasePassword: nextPassword } = installation.secrets
      const cluster = {
        folder: join(installation.dataDir, 'postgres'),
        port: ports.POSTGRES_PORT,
        password,
        nextPassword,
      }
      const options = { ...cluster, durable: true, maxConnections: 200 }
      await start(await postgresProcess(options, say))
      await setOwnerPassword(options)
      adoptDatabasePassword(installation)
      await ensureDatabase(postgresUrl(ports.POSTGRES_PORT, installation.secrets.databasePassword, 'postgres'), 'berth')
    }
    const db = openDatabase({
      url: ownerUrl(installation),
      pool: 2,
      statementTimeoutMs: 600_000,
      applicationName: 'berth-up',
    })
    try {
      const confirm = () => confirmFolder(db, installation.dataDir, databaseName(config.databaseUrl))
      // Checked before the migration: the schema of another installation's database must not change.
      if (!installation.adopts && (await folderMark(installation.dataDir))) await confirm()
      await migrate(db)
      await allowProcesses(db, config.databaseUrl)
      if (installation.adopts) await adopt(installation, db)
      else await confirm()
      await ensureFirstAccount(installation, db)
    } finally {
      await db.destroy()
    }
  }
  const temporal = async () => {
    if (external.temporal) return externalTemporalAnswers(config)
    if (config.temporalTls)
      throw new Error('The TEMPORAL_TLS settings need a Temporal of your own: set TEMPORAL_ADDRESS too.')
    const folder = join(installation.dataDir, 'temporal')
    await start(await temporalProcess({ folder, port: ports.TEMPORAL_PORT, uiPort: ports.TEMPORAL_UI_PORT }, say))
  }
  const objects = async () => {
    const spec = ownObjectStore(installation)
    if (spec) await start(spec)
  }
  const proxy = async () => {
    const targets = surfaceTargets(config.bind, [config.ports])
    await start(await proxyProcess(config, targets, say))
  }
  // First what only the system can provide, so that everything missing is reported together.
  await allOrEveryReason([
    ensureDocker(dockerOptions(installation), say),
    nginxBinary(say, config.edge.nginx),
    ensureGit(say),
    ...(installation.runsToyModel ? [ensureToyModel(say)] : []),
  ])
  await Promise.all([objects().then(database), temporal(), proxy()])
  return specs
}

/** Like Promise.all, but waits for all and rejects with every message. */
async function allOrEveryReason(promises: Promise<unknown>[]): Promise<void> {
  const reasons = (await Promise.allSettled(promises)).flatMap(result =>
    result.status === 'rejected' ? [result.reason] : [],
  )
  if (reasons.length) throw new Error(reasons.map(reason => (reason as Error).message).join('\n'))
}

export function dockerOptions({ runFolder, logFolder }: Installation) {
  return { dockerHost: process.env.DOCKER_HOST, runFolder, logFolder }
}

/** Secrets of outside systems that were rotated since this start. */
function rotatedSince(settings: Record<string, string>): Record<string, string> {
  return valuesInPlace({ ...process.env, ...settings }, outsideValues(dataDirOf(settings)))
}

/** One of our compiled processes. It gets the caller's environment, because it needs the certificates and proxies named there. */
export function ourProcess(
  name: string,
  script: string,
  needs: string[],
  settings: Record<string, string>,
): ProcessSpec {
  return {
    name,
    command: async () => ({
      command: process.execPath,
      args: [
        ...(script === 'api' ? heapFlags : []),
        '--enable-source-maps',
        join(checkout, 'dist/workers', `${script}.js`),
      ],
      env: { ...threadPool, ...process.env, [ownerSetting]: '', ...settings, ...rotatedSince(settings) },
      cwd: checkout,
    }),
    ready: 'ipc',
    readySeconds: 60,
    stopSignal: 'SIGTERM',
    graceSeconds: 15, // they drain within 10
    needs,
  }
}
