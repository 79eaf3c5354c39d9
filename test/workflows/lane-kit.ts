import { cancellationSignal } from '@temporalio/activity'
import { Client, Connection } from '@temporalio/client'
import test from 'ava'
import { pino } from 'pino'
import type { AppHostActivities } from '../../activities/app-host.ts'
import type { AppSnapshotActivities } from '../../activities/app-snapshots.ts'
import { hosted } from '../../activities/failures.ts'
import type { Release } from '../../activities/release.ts'
import { type SnapshotPlaces, snapshotPlaces } from '../../activities/snapshot-place.ts'
import type { Db } from '../../db/database.ts'
import * as hosts from '../../db/hosts.ts'
import * as operations from '../../db/operations.ts'
import * as segments from '../../db/segments.ts'
import { parseConfig } from '../../policy/config.ts'
import { newId } from '../../policy/ids.ts'
import { serveHostQueues } from '../../workers/host-queues.ts'
import { temporalLanes } from '../../workers/lanes.ts'
import { startPlatformWorker } from '../../workers/platform-worker.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { type TestDatabase, testDatabase } from '../kit/database.ts'
import { fakeEdge } from '../kit/edge.fake.ts'
import { rows } from '../kit/rows.ts'
import { type TestTemporal, testTemporal } from '../kit/temporal.ts'
import { portOf } from './ports.ts'

type Served = AppHostActivities & AppSnapshotActivities

/** Everything that a container host does, told with all that lanes send: real hosts believe only ids of it. */
export type HostActivities = {
  [Name in keyof Served]: (release: Release, ...rest: Tail<Parameters<Served[Name]>>) => ReturnType<Served[Name]>
}

type Tail<All extends unknown[]> = All extends [unknown, ...infer Rest] ? Rest : []

const log = pino({ level: process.env.TEST_LOG ?? 'silent' })

/**
 * Lanes on a real Temporal and a real Postgres; what a container host does is written by each test. Call it once at the top
 * level of a test file.
 */
export function laneKit(script: Partial<HostActivities>, settings: Record<string, string> = {}) {
  const closers: (() => Promise<unknown>)[] = []
  // Serial: a lane whose database goes away first would try again for ever, and its worker would never end.
  test.serial.after.always('stop the lane kit', async () => {
    for (const close of closers.reverse()) await close()
  })
  const kit = start({ script, settings }, testDatabase(), testTemporal(), closers)
  test.before('start the lane kit', async () => {
    await kit
  })
  return kit
}

async function start(
  { script, settings }: { script: Partial<HostActivities>; settings: Record<string, string> },
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
    BUILD_SLOTS: '100',
    ...settings,
  }
  const config = parseConfig(env, process.cwd())
  const client = new Client({ connection: await Connection.connect({ address: temporal.address }) })
  const lanes = temporalLanes(client, { queuePrefix: temporal.queuePrefix, idleSeconds: 2 })
  const edge = fakeEdge()
  const store = { delete: async () => {} } as never
  const workflowBundle = process.env.TEST_WORKFLOW_BUNDLE
  const platform = await startPlatformWorker({ config, log, db, client, lanes, edge, store, workflowBundle })
  const calls: string[] = []
  const steps = new Map<string, string[]>()
  const inHand = new InHand()
  const places = snapshotPlaces(db, { lookEveryMs: 20, holdEveryMs: 50 })
  const activities = hosted(recorded({ db, places }, script, { calls, steps, inHand }))
  const host = await serveHostQueues({ config, log, hostId: 'h1', activities, snapshots: activities })
  await hosts.registerHost(db, {
    id: 'h1',
    address: '127.0.0.1',
    readUrl: 'http://127.0.0.1:9',
    memoryMb: 65_536,
    diskMb: 100_000,
    protections: {},
  })
  const seen = setInterval(() => void hosts.seeHost(db, 'h1').catch(() => {}), 1000)
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
    edge,
    calls,
    /** What a script that copies holds. */
    places,
    /** What the host did for one application, in order, as `<activity> <release>`. */
    steps: (appId: string) => steps.get(appId) ?? [],
    /** The most of these that the host did for one application at the same time. */
    mostAtOnce: (appId: string) => inHand.most(appId),
    address: temporal.address,
    queuePrefix: temporal.queuePrefix,
    make: rows(db),
    run: runner(db, lanes),
  }
}

/** How many steps a host has in hand for each application. */
class InHand {
  readonly #now = new Map<string, number>()
  readonly #most = new Map<string, number>()

  async during<R>(appId: string, work: () => Promise<R>): Promise<R> {
    const count = (this.#now.get(appId) ?? 0) + 1
    this.#now.set(appId, count)
    this.#most.set(appId, Math.max(count, this.most(appId)))
    try {
      return await work()
    } finally {
      this.#now.set(appId, (this.#now.get(appId) ?? 1) - 1)
    }
  }

  most(appId: string): number {
    return this.#most.get(appId) ?? 0
  }
}

/** What every container host does unless a test says otherwise. */
function recorded(
  { db, places }: { db: Db; places: SnapshotPlaces },
  script: Partial<HostActivities>,
  { calls, steps, inHand }: { calls: string[]; steps: Map<string, string[]>; inHand: InHand },
): Served {
  const exit = { containerId: 'c1', code: 143, oom: false, at: new Date().toISOString() }
  const started = async ({ appId }: Release) => ({
    containerId: 'c1',
    hostPort: portOf(appId),
    startedAt: new Date().toISOString(),
    bootId: 'b1',
    variablesVersion: 0,
  })
  const usual: HostActivities = {
    prepareRelease: async () => ({ needsInstall: false }),
    installDependencies: async () => {},
    placeFiles: async () => {},
    restoreFiles: async () => {},
    settleFiles: async () => {},
    discardRelease: async () => {},
    lendDependencies: async () => {},
    removeContainer: async () => {},
    startRelease: started,
    passHealthGate: async () => null,
    startApp: started,
    stopApp: async () => exit,
    removeContainers: async () => {},
    removeFiles: async () => {},
    awaitSnapshotPlace: ({ hostId }, operationId) => places.wait({ hostId, operationId }, cancellationSignal()),
    takeSnapshot: async () => ({
      segmentId: await segments.draw(db),
      size: 10,
      sha256: 'a'.repeat(64),
      digest: newId(),
    }),
  }
  const chosen = Object.entries({ ...usual, ...script }).map(([name, activity]) => [
    name,
    async (release: Release, ...rest: never[]) => {
      if (name === 'awaitSnapshotPlace') return usual.awaitSnapshotPlace(release, ...(rest as never as [string]))
      calls.push(name)
      steps.set(release.appId, [...(steps.get(release.appId) ?? []), `${name} ${release.number}`])
      const work = activity as (release: Release, ...rest: never[]) => Promise<unknown>
      return inHand.during(release.appId, () => work(release, ...rest))
    },
  ])
  return Object.fromEntries(chosen)
}

function runner(db: Db, lanes: { wake(appId: string, ownerId: string): Promise<void> }) {
  async function ended(id: string): Promise<operations.OperationRow> {
    const found = () => operations.find(db, id)
    await comesTrue(async () => !['queued', 'running', undefined].includes((await found())?.state), 150)
    return (await found()) as operations.OperationRow
  }
  return {
    ended,
    /** The operation that was asked for last. */
    last: (app: { id: string }): Promise<operations.OperationRow | undefined> =>
      db('operations').where({ target_id: app.id }).orderBy('seq', 'desc').first(),
    /** Writes a command down, wakes the lane and waits for the end. */
    async command(app: { id: string; owner_id: string }, kind: operations.OperationKind) {
      const { id } = await operations.enqueue(db, {
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
