import { randomInt } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { limitConnections } from '../../../activities/containers/network-rules.ts'
import type { ContainerHost, ContainerSpec } from '../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../activities/containers/spec.ts'
import { type DatabaseHostActivities, databaseHostActivities } from '../../../activities/database-host.ts'
import {
  type DatabaseSnapshotActivities,
  type DatabaseSnapshotOptions,
  databaseSnapshotActivities,
} from '../../../activities/database-snapshots.ts'
import type { DatabaseContents } from '../../../activities/databases/contents.ts'
import { databaseDiskGuard } from '../../../activities/databases/disk-guard.ts'
import { contentsOf } from '../../../activities/databases/engines/contents.ts'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { type HostedEngines, hostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { databaseContainerName } from '../../../activities/databases/names.ts'
import type { DatabaseEngine, RemoteEngine } from '../../../activities/databases/port.ts'
import { readSetting } from '../../../activities/databases/settings-folder.ts'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { snapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { databasePasswordKey } from '../../../db/databases/authorities.ts'
import { queueDatabaseSnapshot } from '../../../db/databases/database-snapshots.ts'
import { reserveVolumes } from '../../../db/databases/database-volumes.ts'
import { recordDatabaseStarted } from '../../../db/databases/databases.ts'
import { type DatabaseFacts, readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import type { DatabaseOperationKind } from '../../../db/operations/operation-kinds.ts'
import { enqueueOperation, finishOperation } from '../../../db/operations/operations.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { databasePassword } from '../../../policy/databases/passwords.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { asActivity } from '../hosts/activity-context.ts'
import { demandRoot } from '../root.ts'
import { plansOfMemory, rows } from '../rows/rows.ts'
import { realDocker } from '../servers/docker.ts'

const keys = sealKeys('ab'.repeat(32))

type Steps = DatabaseHostActivities & DatabaseSnapshotActivities

export interface HostStepsTerms {
  engine: EngineName
  version: string
  ramMb: number
  /** An address of this machine at which it listens; default: one of the loopback. */
  bind?: string
  /** Parts of the engine's adapter, and of what copies it, that the test replaces. */
  adapter?: (real: DatabaseEngine) => Partial<DatabaseEngine>
  contents?: (real: DatabaseContents) => Partial<DatabaseContents>
  store?: (real: ObjectStore) => Partial<ObjectStore>
  /** Max seconds until its engine serves, or loads more; default: as on a host. */
  serveSeconds?: number
  /** Its WAL files are left to the host. */
  archives?: boolean
  pointInTime?: Partial<NonNullable<DatabaseSnapshotOptions['pointInTime']>>
}

/** One operation that its lane has claimed; each step is called as the lane does. */
export interface ClaimedOperation {
  id: string
  step<T>(
    work: (steps: Steps, input: { databaseId: string; operationId: string; ownerId: string }) => Promise<T>,
    signal?: AbortSignal,
    attempt?: number,
  ): Promise<T>
  /** Another run of its lane has it from now on. */
  lose(): Promise<void>
  /** It has ended well. */
  end(): Promise<void>
}

/** The steps of a host for one database, on the real engine, without lanes and without a watch. `clean` removes everything. */
export async function hostSteps(db: Db, terms: HostStepsTerms) {
  demandRoot()
  const docker = realDocker({ started: limitConnections })
  /** Every container that was created. */
  const made: ContainerSpec[] = []
  /** Names of containers that were stopped, and for how many seconds they may have continued. */
  const stops: [name: string, seconds: number][] = []
  const engine: ContainerHost = {
    ...docker.host,
    create(spec) {
      made.push(spec)
      return docker.host.create(spec)
    },
    runToEnd(spec, onOutput, signal) {
      made.push(spec)
      return docker.host.runToEnd(spec, onOutput, signal)
    },
    stop(container, seconds) {
      stops.push([container, seconds])
      return docker.host.stop(container, seconds)
    },
  }
  const folder = mkdtempSync(join(tmpdir(), 'berth-steps-'))
  mkdirSync(join(folder, 'store'))
  const volumes = folderVolumes(join(folder, 'volumes'))
  const bind = terms.bind ?? `127.0.${randomInt(50, 250)}.${randomInt(1, 250)}`
  const image = engines[terms.engine].image(terms.version)
  const make = rows(db)
  const { id: ownerId } = await make.user()
  await make.host(docker.run)
  await db('hosts')
    .where({ id: docker.run })
    .update({ database_images: JSON.stringify({ [image]: 'ready' }) })
  const { engine: name, version, ramMb } = terms
  const created = await make.database(ownerId, { engine: name, version, ramMb, images: [image] })
  const { id } = created.database
  const withOwn = <T extends object>(real: T, change: ((real: T) => Partial<T>) | undefined): T => ({
    ...real,
    ...change?.(real),
  })
  const hostedAt = (domain: string) =>
    hostedEngines({
      ...{ db, keys, engine, volumes, bind, address: bind, domain },
      archives: terms.archives ?? false,
      ...(terms.serveSeconds !== undefined && { serveSeconds: terms.serveSeconds }),
      engineOf: engineName => withOwn(engineOf(engineName), terms.adapter),
    })
  const options = {
    ...{ db, engine, volumes, bind, sharedUid: null, locks: appLocks() },
    traits: { id: docker.run, runtime: 'runc' as const, configNames: [], buildProxy: null, caBundle: null },
    boot: { id: 'boot', settle: async () => 'boot' },
    diskMb: () => 1000,
    // Of no device, so that nothing is limited: the volume of the limits is seen by their number.
    disk: async (volume: string) => ({ mbps: Number(volume.split('-').at(-1)), iops: 0, own: null, host: null }),
    admit: async () => {},
  }
  const store = await filesystemStore(join(folder, 'store'))
  Object.assign(store, terms.store?.(store))
  const snapshotOptions = {
    ...{ store, snapshots: snapshots(), slots: snapshotSlots(db) },
    pointInTime: {
      prepare: async () => {},
      backUpFirst: async () => {},
      beforeRestore: async () => {},
      ...terms.pointInTime,
    },
    contentsOf: (engineName: EngineName) => withOwn(contentsOf(engineName), terms.contents),
  }
  const stepsOf = (hosted: HostedEngines): Steps => {
    const own = { ...options, hosted, guard: databaseDiskGuard({ db, volumes, hosted }) }
    return { ...databaseHostActivities(own), ...databaseSnapshotActivities({ ...own, ...snapshotOptions }) }
  }
  let hosted = hostedAt('apps.localhost')
  let steps = stepsOf(hosted)
  const facts = async (): Promise<DatabaseFacts> => (await readFactsOfDatabase(db, id))!

  async function claimed(operationId: string, underWay: DatabaseOperationKind[] = []): Promise<ClaimedOperation> {
    const run = `lane-${operationId}`
    await claimNextOperationFor(db, { type: 'database', id }, { run, step: 1 }, underWay)
    const input = { databaseId: id, operationId, ownerId }
    return {
      id: operationId,
      step: (work, signal, attempt) => asActivity({ run, step: 5 }, () => work(steps, input), signal, attempt),
      async lose() {
        await db('operations').where({ id: operationId }).update({ claim: 'another run' })
      },
      end: () => finishOperation(db, operationId, { state: 'success' }),
    }
  }

  return {
    ...{ id, ownerId, db, engine, volumes, hosted, facts, stops, made },

    /** Names of databases end with this from now on, as after a change of the setting. */
    moveTo(domain: string): void {
      hosted = hostedAt(domain)
      steps = stepsOf(hosted)
    },

    /** Claims another operation of the database, alongside those under way. */
    async begin(
      kind: DatabaseOperationKind,
      input: Record<string, unknown> = {},
      underWay: DatabaseOperationKind[] = [],
    ): Promise<ClaimedOperation> {
      const target = { targetType: 'database', targetId: id, ownerId, actor: ownerId } as const
      return claimed((await enqueueOperation(db, { ...target, kind, input })).id, underWay)
    },

    /** Claims a snapshot, with the volumes that it uses; `id` of its row. */
    async beginSnapshot(): Promise<ClaimedOperation & { snapshot: string }> {
      const asked = { databaseId: id, ownerId, actor: ownerId, origin: 'manual', plans: plansOfMemory(10_000) } as const
      const row = await queueDatabaseSnapshot(db, asked)
      await transaction(db, trx => reserveVolumes(trx, row.operation_id, id))
      return { ...(await claimed(row.operation_id)), snapshot: row.id }
    },

    /** Makes the database; it serves. */
    async create(): Promise<void> {
      const creation = await claimed(created.operationId)
      await creation.step((own, input) => own.prepareDatabase(input))
      const started = await creation.step((own, input) => own.startDatabase(input, { mustStand: false }))
      await creation.step((own, input) => own.setDatabasePassword(input, 0))
      await recordDatabaseStarted(db, id, { ...started, startedAt: new Date(started.startedAt) })
      await creation.end()
    },

    password: async (generation: number) => databasePassword(await databasePasswordKey(db, keys), id, generation),

    /** As its customers reach it. */
    async remote(): Promise<RemoteEngine> {
      const database = await facts()
      const authority = (await readSetting(hosted.foldersOf(database), 'ca.crt')) ?? ''
      return { host: bind, port: database.port, authority, servername: hosted.hostnameOf(database) }
    },

    running: async (container?: string) =>
      (await engine.inspect(container ?? databaseContainerName(await facts())))?.running ?? false,

    async clean(): Promise<void> {
      await docker.clean(tenantNetwork(ownerId, docker.run).name)
      await engine.removeShare(ownerId)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
