import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { type ContainerState, labels } from '../../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../../activities/containers/spec.ts'
import {
  type DatabaseName,
  databaseContainerName,
  databaseRole,
  databaseVolume,
} from '../../../../activities/databases/names.ts'
import { strayBook } from '../../../../activities/hosts/stray-book.ts'
import { appLocks } from '../../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../../activities/volumes/folder.ts'
import type { Db } from '../../../../db/database.ts'
import * as databases from '../../../../db/databases/databases.ts'
import * as operations from '../../../../db/operations/operations.ts'
import { newAppId, newId } from '../../../../policy/ids.ts'
import { DatabaseRounds, type DatabaseWatchOptions } from '../../../../workers/host/databases/database-watch.ts'
import { FakeContainerHost } from '../../../kit/fakes/container-host.ts'
import { logLines } from '../../../kit/log-sink.ts'
import { rows } from '../../../kit/rows/rows.ts'

/** Notes of which databases containers were listed, `all` or an id, and what was ended. */
class NotingEngine extends FakeContainerHost {
  readonly listed: string[] = []
  readonly ended: string[] = []

  override async list(filter: Record<string, string>) {
    this.listed.push(filter[labels.database] ?? filter[labels.role] ?? 'all')
    return super.list(filter)
  }

  override async stop(name: string, graceSeconds: number) {
    this.ended.push(`stop ${name} within ${graceSeconds}`)
    await super.stop(name, graceSeconds)
  }

  override async remove(name: string) {
    this.ended.push(`remove ${name}`)
    await super.remove(name)
  }
}

const folder = mkdtempSync(join(tmpdir(), 'berth-databases-'))
test.after.always(() => rmSync(folder, { recursive: true, force: true }))

let port = 20_000

/** A host of its own with an owner, the rounds of its watch of databases, and a clock that the test sets. */
export async function watchedHost(db: Db, changes: Partial<DatabaseWatchOptions> = {}) {
  const make = rows(db)
  const hostId = `h-${newAppId()}`
  const { id: ownerId } = await make.user()
  await make.host(hostId)
  const engine = new NotingEngine()
  await engine.ensureNetwork(tenantNetwork(ownerId, hostId))
  const volumes = folderVolumes(join(folder, hostId))
  const strays = strayBook(join(folder, `${hostId}.json`))
  const boot = { id: 'boot-1', settle: async () => boot.id }
  const clock = { now: Date.now() }
  const { log, lines: logged } = logLines<{ databaseId?: string }>()
  const admitted: number[] = []
  const options = {
    ...{ db, engine, volumes, strays, hostId, boot, log, locks: appLocks(), now: () => clock.now },
    held: async () => {},
    admit: async () => void admitted.push(engine.containers.size),
    memoryOf: async () => ({ usedBytes: 0, limitBytes: 1 }),
    diskOf: async () => null,
    ...changes,
  }
  const rounds = new DatabaseRounds(options)

  async function add(changes: Record<string, unknown> = {}): Promise<databases.DatabaseRow> {
    const [row] = await db('databases')
      .insert({
        ...{ id: newId(), owner_id: ownerId, name: 'store', engine: 'redis', version: '8', image: 'berth/redis:8' },
        ...{ ram_mb: 512, reserved_mb: 512, cpu: 1, host_id: hostId, port: port++, provisioned_at: new Date() },
        ...changes,
      })
      .returning('*')
    return row
  }

  const stateOf = (name: DatabaseName, changes: Partial<ContainerState> = {}): ContainerState => ({
    ...{ id: `c-${databaseVolume(name)}`, name: databaseContainerName(name), status: 'running', running: true },
    ...{ exitCode: null, oom: false, startedAt: new Date(clock.now), finishedAt: null },
    ...{ hostPort: 1, hostAddress: '127.0.0.1', address: '10.1.1.1' },
    labels: {
      ...{ [labels.host]: hostId, [labels.owner]: ownerId, [labels.database]: name.id },
      ...{ [labels.release]: String(name.generation), [labels.role]: databaseRole, [labels.port]: '20000' },
    },
    ...changes,
  })
  const put = (name: DatabaseName, changes: Partial<ContainerState> = {}) => engine.put(stateOf(name, changes))

  return {
    ...{ db, hostId, ownerId, engine, volumes, strays, boot, clock, logged, admitted, options, rounds, add, put },
    stateOf,
    /** One whose engine has run for so many seconds, as its row says. */
    async serving(seconds = 60, changes: Record<string, unknown> = {}) {
      const { id, generation } = await add(changes)
      const startedAt = new Date(clock.now - seconds * 1000)
      const containerId = `c-${databaseVolume({ id, generation })}`
      await databases.recordDatabaseStarted(db, id, { containerId, startedAt, bootId: 'boot-1' })
      put({ id, generation }, { startedAt })
      return {
        id,
        generation,
        name: databaseContainerName({ id, generation }),
        volume: databaseVolume({ id, generation }),
      }
    },
    /** Its engine ends, without an event. */
    crash(name: DatabaseName, changes: Partial<ContainerState> = {}) {
      const finishedAt = new Date(clock.now)
      const ended = { status: 'exited', running: false, exitCode: 139, finishedAt, address: null } as const
      put(name, { ...ended, ...changes })
    },
    later(seconds: number) {
      clock.now += seconds * 1000
    },
    /** Everything is compared. */
    look: () => {
      rounds.seeAll()
      return rounds.round()
    },
    row: async (id: string) => (await databases.loadDatabase(db, id))!,
    queued: (id: string) =>
      db('operations').where({ target_id: id, state: 'queued' }).select('target_type', 'kind', 'actor', 'owner_id'),
    operation: (id: string, kind: operations.DatabaseOperationKind) =>
      operations.enqueueOperation(db, { targetType: 'database', targetId: id, kind, ownerId, actor: ownerId }),
    /** What was queued for it has ended. */
    ends: (id: string, state: 'success' | 'error') => db('operations').where({ target_id: id }).update({ state }),
  }
}
