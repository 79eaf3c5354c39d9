import { readFileSync } from 'node:fs'
import { chmod, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { removeFirewall } from '../../../../activities/firewall/iptables.ts'
import { ignoreError } from '../../../../lib/async/ignore-error.ts'
import { loop } from '../../../../lib/async/loop.ts'
import type { EngineName } from '../../../../policy/databases/engine.ts'
import { engines } from '../../../../policy/databases/engines.ts'
import { mongoStandIn } from '../../../../policy/databases/mongo.ts'
import { type Entry, startEntry } from '../../platform/entry.ts'
import { type TestPlatform, testPlatform } from '../../platform/platform.ts'
import { workflowBundle } from '../../platform/workflow-bundle.ts'
import { demandRoot } from '../../root.ts'
import { testDatabase } from '../../servers/database.ts'
import { type OwnTemporal, ownTemporal } from '../../servers/temporal.ts'
import { type Disk, testDisk } from '../disk.ts'
import { type Power, powerOf } from './power.ts'

/** Without a cache the images are created first, alongside the other tests. */
const imageSeconds = 1200

/** Of all hosts; only what they write takes place. */
const diskMb = 8192

/** Memory of a host in MB: room for one database, and for its larger size, but never for a second one. */
const hostMemoryMb = '1280'

/** Of MongoDB there is the stand-in. */
const imageOf = (engine: EngineName): string => {
  const { image, versions } = engines[engine]
  return (engine === 'mongo' ? mongoStandIn.image : image)(versions[0]!)
}

/** A platform whose every part is a process that may be killed: Postgres, Temporal, the worker, and one host for each database. */
export interface DatabaseStage extends Power {
  platform: TestPlatform
  hosts: (Entry | null)[]
  worker: Entry | null
  /** Starts the n-th host, which must not run, with these settings more; resolves once it takes databases. */
  startHost(n: number, own?: Record<string, string>): Promise<Entry>
  /** A second process with the name of the n-th host; resolves once it acts. */
  takeOver(n: number): Promise<Entry>
  startWorker(own?: Record<string, string>): Promise<Entry>
  /** Ends Postgres as a crash does; resolves once it answers again. */
  killPostgres(): Promise<void>
  killTemporal: OwnTemporal['kill']
  /** Writes out what the hosts have on their disk, so that what comes next is alone. */
  settle(): Promise<void>
}

/** Call it once at the top level of a test file. */
export function databaseStage(...offered: EngineName[]): Promise<DatabaseStage> {
  demandRoot()
  const temporal = ownTemporal()
  const disk = testDisk(diskMb)
  const living = new Set<Entry>()
  const ending = new AbortController()
  test.serial.after.always('end the processes', async () => {
    ending.abort()
    for (const entry of living) await entry.kill('SIGKILL')
  })
  // Volumes are mounted as Berth mounts them, and would soon write everything out by themselves.
  const loosen = async () => (await disk).loosen()
  void loop(loosen, { signal: ending.signal, everyMs: 50, onError: ignoreError('it has just been unmounted') })
  const started = testPlatform({
    hosts: {},
    worker: false,
    database: () => testDatabase({ ownServer: true }),
    temporal: temporal.start,
    settings: async () => ({
      BERTH_DATA: await mkdtemp(join((await disk).folder, 'data-')),
      DATABASE_ENGINES: offered.join(),
      MONGO_STAND_IN: 'on',
      DISK_MB_PER_256MB: '128',
      HOST_FIREWALL: 'auto',
    }),
  })
  return started.then(async platform => {
    await chmod(platform.base.settings.BERTH_DATA!, 0o711)
    platform.base.settings.WORKFLOW_BUNDLE = await workflowBundle(platform.base.folder)
    return stageOn(platform, offered, { living, temporal, disk: await disk })
  })
}

interface StageParts {
  living: Set<Entry>
  temporal: OwnTemporal
  disk: Disk
}

function stageOn(
  platform: TestPlatform,
  offered: readonly EngineName[],
  { living, temporal, disk }: StageParts,
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
    const entry = await start('host', platform.hostSettings(name, { HOST_MEMORY_MB: hostMemoryMb, ...own }))
    const isReady = async () => {
      const row = await platform
        .db('hosts')
        .where({ id: platform.hostId(name) })
        .first()
      return offered.every(engine => row?.database_images?.[imageOf(engine)] === 'ready')
    }
    await platform.until(() => isReady().catch(() => false), imageSeconds, 'the images') // Postgres may be away, or slow
    return entry
  }
  const clearing = new Set<number>()
  const hosts: DatabaseStage['hosts'] = []
  const stage: DatabaseStage = {
    platform,
    hosts,
    ...powerOf(hosts, platform, disk),
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
    settle: () => disk.settle(),
  }
  return stage
}
