import { randomInt } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { tenantNetwork } from '../../../activities/containers/spec.ts'
import { databaseContainer } from '../../../activities/databases/container.ts'
import { asPlatform } from '../../../activities/databases/engines/postgres/postgres.ts'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { hostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { databaseContainerName, databaseVolume } from '../../../activities/databases/names.ts'
import { pointInTime } from '../../../activities/databases/point-in-time/point-in-time.ts'
import { walCopies } from '../../../activities/databases/point-in-time/wal-copies.ts'
import { prepareVolume } from '../../../activities/databases/preparation.ts'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import type { Db } from '../../../db/database.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { readRestorableRanges } from '../../../db/databases/point-in-time/backups.ts'
import { recordHostSeen } from '../../../db/hosts/hosts.ts'
import { type DatabaseFacts, readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { customerUser } from '../../../policy/databases/connection-url.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { demandRoot } from '../root.ts'
import { makeDatabase } from '../rows/databases.ts'
import { rows } from '../rows/rows.ts'
import { realDocker } from '../servers/docker.ts'

const keys = sealKeys('ab'.repeat(32))
const memoryMb = 1024
const waitSeconds = 120

/** A host with one Postgres, real in all its parts but without lanes: its steps are called directly. `clean` removes everything. */
export async function pointInTimeHost(
  db: Db,
  change: (store: ObjectStore) => Pick<ObjectStore, 'put' | 'get'> = store => store,
) {
  demandRoot()
  const docker = realDocker()
  const { host: engine } = docker
  const folder = mkdtempSync(join(tmpdir(), 'berth-point-'))
  const volumes = folderVolumes(join(folder, 'volumes'))
  mkdirSync(join(folder, 'store'))
  const store = change(await filesystemStore(join(folder, 'store')))
  const make = rows(db)
  const { id: ownerId } = await make.user()
  await make.host(docker.run)
  const bind = `127.0.${randomInt(50, 250)}.${randomInt(1, 250)}`
  const address = { domain: 'apps.localhost', address: bind, bind }
  const hosted = hostedEngines({ db, keys, engine, volumes, engineOf, ...address, archives: true })
  const traits = { id: docker.run, runtime: 'runc' as const, configNames: [], buildProxy: null, caBundle: null }
  const preparation = { engine, volumes, hosted, traits, diskMb: () => 1000 }
  const held = async () => {}
  const copies = walCopies({ db, store, held })
  const part = pointInTime({ ...preparation, db, store, copies, held, locks: appLocks() })
  const signal = AbortSignal.timeout(600_000)
  const { id } = await makeDatabase(db, keys, ownerId, { engine: 'postgres', ramMb: memoryMb })
  await db('databases').where({ id }).update({ host_id: docker.run })

  const facts = async (): Promise<DatabaseFacts> => (await readFactsOfDatabase(db, id))!

  async function start(): Promise<void> {
    const database = await facts()
    await hosted.settle(database)
    await engine.ensureNetwork(tenantNetwork(ownerId, traits.id))
    const command = hosted.adapterOf(database).command(hosted.traitsOf(database))
    const where = { hostname: hosted.hostnameOf(database), address: bind, host: traits }
    const spec = databaseContainer(database, hosted.foldersOf(database), command, where)
    await part.opened(database)
    await engine.remove(spec.name)
    await engine.create(spec)
    await engine.start(spec.name)
    await hosted.untilServing(database, signal)
  }

  async function stop(): Promise<void> {
    const database = await facts()
    await engine.stop(databaseContainerName(database), engines.postgres.stop.graceSeconds)
    await part.closed(database)
  }

  const sql = async (text: string) =>
    hosted.locally(await facts(), local =>
      asPlatform(
        local,
        { database: customerUser, seconds: 60, settings: { search_path: 'public' } },
        async client => (await client.query(text)).rows,
      ),
    )

  return {
    ...{
      id,
      db,
      docker,
      engine,
      volumes,
      hosted,
      store,
      copies,
      part,
      signal,
      facts,
      start,
      stop,
      sql,
      ownerId,
      folder,
    },

    /** A database that serves its customer, without a base backup. */
    async serve(): Promise<void> {
      await engine.ensureImage(engines.postgres.image('17'))
      const database = await facts()
      await prepareVolume(preparation, database, signal)
      await start()
      await hosted.locally(database, local => hosted.adapterOf(database).setPassword(local))
    },

    volume: async () => ({ databaseId: id, generation: (await facts()).generation }),
    archive: async () => join(hosted.foldersOf(await facts()).data, 'wal'),
    archived: async () => readdirSync(join(hosted.foldersOf(await facts()).data, 'wal')).sort(),
    copy: async () => part.copy(await facts(), signal),
    backUp: async () => part.backUp(await facts(), signal),
    ranges: async () => {
      await recordHostSeen(db, docker.run)
      return readRestorableRanges(db, (await loadDatabase(db, id))!)
    },

    /** The engine's clock; later than what was committed before. */
    now: async (): Promise<Date> => {
      const [{ now }] = await sql(`select clock_timestamp() as now`)
      // Moments have milliseconds.
      await sleep(5)
      return now
    },

    /** Everything that the engine has finished is in the store. */
    async endFile(): Promise<void> {
      await sql(`select pg_logical_emit_message(true, 'test', 'end'), pg_switch_wal()`)
      for (const deadline = Date.now() + waitSeconds * 1000; ; await sleep(50)) {
        const [{ waits }] = await sql(
          `select exists (select from pg_ls_archive_statusdir() where name like '%.ready') as waits`,
        )
        if (!waits) return
        if (Date.now() > deadline) throw new Error('The engine does not archive.')
      }
    },

    /** Ends every process of the engine at once. */
    async kill(): Promise<void> {
      const name = databaseContainerName(await facts())
      const { process: first } = (await engine.inspect(name)) ?? {}
      if (!first) throw new Error('It does not run.')
      process.kill(first.pid, 'SIGKILL')
      for (const deadline = Date.now() + waitSeconds * 1000; (await engine.inspect(name))?.running; await sleep(50))
        if (Date.now() > deadline) throw new Error('It runs still.')
      await db('databases').where({ id }).update({ status: 'exited' })
    },

    /** A restore as its lane does it: the copy alongside, then in the place of the volume that serves. */
    async restore(to: Date): Promise<void> {
      const database = await facts()
      const copyOf = { ...database, generation: database.nextGeneration + 1 }
      await db('databases')
        .where({ id })
        .update({ next_generation: copyOf.generation + 1 })
      const dump = databaseVolume({ id, generation: copyOf.generation - 1 })
      await volumes.remove(dump)
      await volumes.ensure(dump, 1000, database.uid)
      try {
        await part.prepare(database, copyOf, to, `${volumes.path(dump)}/files`, signal)
      } finally {
        await volumes.remove(dump)
      }
      const running = (await engine.inspect(databaseContainerName(database)))?.running
      if (running) await stop()
      await db('databases')
        .where({ id })
        .update({
          ...{ generation: copyOf.generation, retired_generation: database.generation },
          retired_until: db.raw(`now() + interval '1 minute'`),
        })
      if (running) await start()
    },

    async clean(): Promise<void> {
      await docker.clean(tenantNetwork(ownerId, traits.id).name)
      await engine.removeShare(ownerId)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
