import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import { filesystemStore } from '../../activities/objects/filesystem.ts'
import { snapshotSlots } from '../../activities/snapshots/snapshot-slots.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import * as hosts from '../../db/hosts/hosts.ts'
import * as operations from '../../db/operations/operations.ts'
import { parseConfig } from '../../policy/config.ts'
import { serveHostQueues } from '../../workers/host/host-queues.ts'
import { startPlatformWorker } from '../../workers/platform-worker.ts'
import { temporalDatabaseLanes, temporalLanes } from '../../workers/temporal/lanes.ts'
import { databaseLaneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { fakeEdge } from '../kit/fakes/edge.ts'
import { keepRun } from '../kit/platform/histories.ts'
import { rows } from '../kit/rows/rows.ts'
import { type TestDatabase, testDatabase } from '../kit/servers/database.ts'
import { type TestTemporal, testTemporal } from '../kit/servers/temporal.ts'
import { type DatabaseScript, scriptedDatabases } from './scripted-databases.ts'
import { scriptedHost } from './scripted-host.ts'
import type { HostScript } from './scripted-parts.ts'

const log = pino({ level: process.env.TEST_LOG ?? 'silent' })

type Settings = Record<string, string>

/**
 * Lanes on a real Temporal and a real Postgres, with a scripted container host. Call it once at the top level of a test file.
 */
export function laneKit(
  script: HostScript = {},
  settings: Settings | Promise<Settings> = {},
  databaseScript: DatabaseScript = {},
) {
  const closers: (() => Promise<unknown>)[] = []
  // Serial: a lane whose database ends first would retry for ever, and its worker would never end.
  test.serial.after.always('stop the lane kit', async () => {
    for (const close of closers.reverse()) await close()
  })
  const kit = start({ script, settings, databaseScript }, testDatabase(), testTemporal(), closers)
  test.before('start the lane kit', async () => {
    await kit
  })
  return kit
}

async function start(
  {
    script,
    settings,
    databaseScript,
  }: { script: HostScript; settings: Settings | Promise<Settings>; databaseScript: DatabaseScript },
  givenDatabase: Promise<TestDatabase>,
  givenTemporal: Promise<TestTemporal>,
  closers: (() => Promise<unknown>)[],
) {
  const database = await givenDatabase
  const temporal = await givenTemporal
  const { db } = database
  const env = {
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: temporal.address,
    QUEUE_PREFIX: temporal.queuePrefix,
    BLOB_UPKEEP: 'off',
    DATABASE_DRILL_DAYS: '0',
    BUILD_SLOTS: '100',
    ...(await settings),
  }
  const config = parseConfig(env, process.cwd())
  const client = new Client({ connection: await Connection.connect({ address: temporal.address }) })
  const lanes = temporalLanes(client, { queuePrefix: temporal.queuePrefix, idleSeconds: 2 })
  const edge = fakeEdge()
  const folder = await mkdtemp(join(tmpdir(), 'berth-lanes-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const store = await filesystemStore(folder)
  const workflowBundle = process.env.TEST_WORKFLOW_BUNDLE
  const databaseLanes = temporalDatabaseLanes(client, { queuePrefix: temporal.queuePrefix, idleSeconds: 2 })
  const platform = await startPlatformWorker({
    config,
    log,
    db,
    client,
    lanes,
    databaseLanes,
    edge,
    store,
    workflowBundle,
  })
  // A host is a separate process with its own connections.
  const hostDb = openDatabase({ url: database.url, pool: 10, applicationName: 'berth-test-host' })
  closers.push(() => hostDb.destroy())
  const places = snapshotSlots(hostDb, { lookEveryMs: 20, holdEveryMs: 50 })
  const { appsDomain } = config
  const decisions = { appsDomain, diskMbPer256Mb: config.host.diskMbPer256Mb }
  const { activities, at, log: stepLog } = scriptedHost({ ...decisions, db: hostDb, places, hostId: 'h1' }, script)
  const databases = scriptedDatabases({ db: hostDb, hostId: 'h1', places }, databaseScript)
  const host = await serveHostQueues({
    config,
    log,
    hostId: 'h1',
    activities,
    snapshots: activities,
    databases: databases.activities,
    databaseSnapshots: databases.snapshots,
  })
  await hosts.registerHost(db, {
    id: 'h1',
    address: '127.0.0.1',
    readUrl: 'http://127.0.0.1:9',
    memoryMb: 65_536,
    diskMb: 100_000,
    protections: {},
  })
  const seen = setInterval(() => void hosts.recordHostSeen(db, 'h1').catch(() => {}), 1000)
  closers.push(
    () => client.connection.close(),
    () => platform.stop(),
    () => host.stop(),
    async () => clearInterval(seen),
  )
  return {
    db,
    config,
    client,
    lanes,
    databaseLanes,
    databases,
    edge,
    /** State of an application at the host. */
    hostHas: at,
    /** Names of the host's steps, for all applications. */
    calls: stepLog.calls,
    /** The host's steps for one application, in order, as `<activity> <release>`. */
    steps: (appId: string) => stepLog.steps(appId),
    /** Whether one of these steps runs. */
    isBusy: (appId: string) => stepLog.isBusy(appId),
    /** Max number of these steps that ran concurrently for one application. */
    mostAtOnce: (appId: string) => stepLog.mostAtOnce(appId),
    /** Keeps the run of a database's lane (`scripts/record-histories.mjs`). */
    keep: (name: string, databaseId: string) => keepRun(client, name, databaseLaneId(databaseId)),
    address: temporal.address,
    queuePrefix: temporal.queuePrefix,
    make: rows(db),
    run: runner(db, lanes),
  }
}

function runner(db: Db, lanes: { wake(appId: string, ownerId: string): Promise<void> }) {
  async function ended(id: string): Promise<operations.OperationRow> {
    const found = () => operations.findOperation(db, id)
    await comesTrue(async () => !['queued', 'running', undefined].includes((await found())?.state), 150)
    return (await found()) as operations.OperationRow
  }
  return {
    ended,
    /** The last requested operation. */
    last: (app: { id: string }): Promise<operations.OperationRow | undefined> =>
      db('operations').where({ target_id: app.id }).orderBy('seq', 'desc').first(),
    /** Records a command, wakes the lane and waits for the end. */
    async command(app: { id: string; owner_id: string }, kind: operations.OperationKind) {
      const { id } = await operations.enqueueOperation(db, {
        targetId: app.id,
        kind,
        ownerId: app.owner_id,
        actor: app.owner_id,
      })
      await lanes.wake(app.id, app.owner_id)
      return ended(id)
    },
  }
}
