import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { removeFirewall } from '../../../../activities/firewall/iptables.ts'
import { unusedPort } from '../../../../cli/installation/ports.ts'
import { temporalProcess } from '../../../../cli/services/temporal.ts'
import { removeThrowAway, throwAwayFolder } from '../../../../cli/test/test-postgres.ts'
import { readRecords } from '../../../../workers/supervisor/process-record.ts'
import { Supervisor } from '../../../../workers/supervisor/supervisor.ts'
import { type Entry, startEntry } from '../../platform/entry.ts'
import { type TestPlatform, testPlatform } from '../../platform/platform.ts'
import { workflowBundle } from '../../platform/workflow-bundle.ts'
import { demandRoot } from '../../root.ts'
import { testDatabase } from '../../servers/database.ts'
import type { TestTemporal } from '../../servers/temporal.ts'

/** Without a cache the images are created first, alongside the other tests. */
const imageSeconds = 1200

/** Memory of a host in MB: room for one database, and for its larger size, but never for a second one. */
const hostMemoryMb = { redis: 768, postgres: 1280, mysql: 1280 } as const

export type StagedEngine = keyof typeof hostMemoryMb

const images = { redis: 'berth/redis:8', postgres: 'berth/postgres:17', mysql: 'berth/mysql:9' } as const

/** A platform whose every part is a process that may be killed: Postgres, Temporal, the worker, and one host for each database. */
export interface DatabaseStage {
  platform: TestPlatform
  engine: StagedEngine
  hosts: (Entry | null)[]
  worker: Entry | null
  /** Starts the n-th host, which must not run, with these settings more; resolves once it takes databases. */
  startHost(n: number, own?: Record<string, string>): Promise<Entry>
  /** A second process with the name of the n-th host; resolves once it acts. */
  takeOver(n: number): Promise<Entry>
  startWorker(own?: Record<string, string>): Promise<Entry>
  /** Ends Postgres as a crash does; resolves once it answers again. */
  killPostgres(): Promise<void>
  /** Ends Temporal as a crash does, and removes all that it knows if it is to be `emptied`; resolves once it runs again. */
  killTemporal(how: 'kept' | 'emptied'): Promise<void>
}

/** Call it once at the top level of a test file. */
export function databaseStage(engine: StagedEngine): Promise<DatabaseStage> {
  demandRoot()
  const temporal = ownTemporal()
  const living = new Set<Entry>()
  test.serial.after.always('end the processes', async () => {
    for (const entry of living) await entry.kill('SIGKILL')
  })
  const started = testPlatform({
    hosts: {},
    worker: false,
    database: () => testDatabase({ ownServer: true }),
    temporal: temporal.start,
    settings: { DATABASE_ENGINES: engine, DISK_MB_PER_256MB: '128', HOST_FIREWALL: 'auto' },
  })
  return started.then(async platform => {
    platform.base.settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
    return stageOn(platform, engine, living, temporal)
  })
}

function stageOn(
  platform: TestPlatform,
  engine: StagedEngine,
  living: Set<Entry>,
  temporal: ReturnType<typeof ownTemporal>,
): DatabaseStage {
  const start = async (name: 'host' | 'worker', own: Record<string, string>): Promise<Entry> => {
    const entry = startEntry(name, own)
    living.add(entry)
    void entry.ended.then(() => living.delete(entry))
    await entry.ready
    return entry
  }
  const startHost = async (n: number, own: Record<string, string>) => {
    const name = `h${n}`
    if (!clearing.has(n)) platform.base.undo.push(() => removeFirewall(platform.hostId(name)))
    clearing.add(n)
    platform.clearLater(name)
    const settings = { HOST_MEMORY_MB: String(hostMemoryMb[engine]), ...own }
    const entry = await start('host', platform.hostSettings(name, settings))
    const isReady = async () => {
      const row = await platform
        .db('hosts')
        .where({ id: platform.hostId(name) })
        .first()
      return row?.database_images?.[images[engine]] === 'ready'
    }
    await platform.until(() => isReady().catch(() => false), imageSeconds, 'the image') // Postgres may be away, or slow
    return entry
  }
  const clearing = new Set<number>()
  const stage: DatabaseStage = {
    platform,
    engine,
    hosts: [],
    worker: null,
    async startHost(n, own = {}) {
      stage.hosts[n] = await startHost(n, own)
      return stage.hosts[n]
    },
    takeOver: n => startHost(n, {}),
    async startWorker(own = {}) {
      stage.worker = await start('worker', { ...platform.base.settings, ...own })
      return stage.worker
    },
    async killPostgres() {
      const { rows } = await platform.db.raw('show data_directory')
      const pid = Number(readFileSync(join(rows[0].data_directory, 'postmaster.pid'), 'utf8').split('\n')[0])
      process.kill(pid, 'SIGKILL')
      const answers = () =>
        platform.db.raw('select pg_postmaster_start_time()').then(
          () => true,
          () => false,
        )
      await platform.until(answers, 60, 'Postgres is back')
    },
    killTemporal: temporal.kill,
  }
  return stage
}

/** A Temporal of this file's own, on a disk, so that it can forget everything or nothing. */
function ownTemporal() {
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  let isEmptied = false
  let starts = 0
  let server: { ready: () => Promise<unknown> } | null = null
  // A run that is ended by a signal never reaches its hooks.
  process.once('exit', () => supervisor.kill())
  test.after.always('stop Temporal', async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  return {
    async start(): Promise<TestTemporal> {
      const port = await unusedPort()
      const spec = await temporalProcess({ folder: `${folder}/data`, port, uiPort: null }, () => {})
      server = { ready: spec.ready as () => Promise<unknown> }
      await supervisor.start({
        ...spec,
        command: async () => {
          starts++
          if (isEmptied)
            for (const end of ['', '-wal', '-shm']) rmSync(`${folder}/data/temporal.db${end}`, { force: true })
          return spec.command()
        },
      })
      return { address: `127.0.0.1:${port}`, queuePrefix: 'killed/' }
    },
    async kill(how: 'kept' | 'emptied'): Promise<void> {
      isEmptied = how === 'emptied'
      const before = starts
      const [record] = readRecords(`${folder}/run`)
      process.kill(-record!.pid, 'SIGKILL')
      for (const deadline = Date.now() + 120_000; ; await sleep(100)) {
        const isBack =
          starts > before &&
          (await server!.ready().then(
            () => true,
            () => false,
          ))
        if (isBack) return
        if (Date.now() > deadline) throw new Error('Temporal does not come back.')
      }
    },
  }
}
