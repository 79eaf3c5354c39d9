import { type ContainerReading, labels } from '../../../activities/containers/port.ts'
import { databaseContainerName, databaseRole } from '../../../activities/databases/names.ts'
import { saveDatabaseMetrics } from '../../../db/databases/database-metrics.ts'
import { endMemoryWarning, recordDiskUse, warnOfMemory } from '../../../db/databases/database-warnings.ts'
import { type HostDatabase, listDatabasesOfHost } from '../../../db/databases/databases.ts'
import { MiB } from '../../../lib/bytes.ts'
import { highInARow } from '../../../policy/apps/memory-alerts.ts'
import { memoryVerdict, type UsedMemory } from '../../../policy/databases/database-warnings.ts'
import { diskWarningLevel } from '../../../policy/databases/disk-levels.ts'
import { engines } from '../../../policy/databases/engines.ts'
import type { HostMetricsOptions } from '../host-metrics.ts'
import { type Running, Sampler } from '../watch/sampler.ts'

export interface DatabaseMetricsOptions extends Omit<HostMetricsOptions, 'sampleSeconds'> {
  /** Asks an engine whose data are all in memory what they take. */
  memoryOf(database: HostDatabase): Promise<UsedMemory>
  /** The disk of a database; null = it has none of its own. */
  diskOf(database: HostDatabase): Promise<{ usedBytes: number; totalBytes: number } | null>
}

/** Points of metrics of the databases of a host, from the containers that serve, and warnings about their memory and disk. */
export class DatabaseMetrics {
  readonly #options: DatabaseMetricsOptions
  readonly #sampler: Sampler<HostDatabase>
  /** Consecutive samples with too much memory, by database. */
  readonly #high = new Map<string, number>()

  constructor(options: DatabaseMetricsOptions) {
    this.#options = options
    this.#sampler = new Sampler(options, {
      running: () => this.#running(),
      save: points =>
        saveDatabaseMetrics(
          options.db,
          points.map(({ appId: databaseId, ...point }) => ({ ...point, databaseId })),
        ),
      onReading: (database, stats) => this.#warn(database, stats),
      subjectOf: databaseId => ({ databaseId }),
    })
  }

  /** Writes points that are complete at `now`, in milliseconds, and samples everything that runs. */
  round(now: number): Promise<void> {
    return this.#sampler.round(now)
  }

  async #running(): Promise<Running<HostDatabase>[]> {
    const { db, engine, hostId } = this.#options
    const listed = await engine.list({ [labels.host]: hostId, [labels.role]: databaseRole })
    const containers = new Map(listed.map(one => [one.name, one]))
    const rows = listed.length === 0 ? [] : await listDatabasesOfHost(db, hostId)
    const running = rows.flatMap(row => {
      const container = containers.get(databaseContainerName(row))
      return container?.running ? [{ row, container }] : []
    })
    const ids = new Set(running.map(({ row }) => row.id))
    for (const id of this.#high.keys()) if (!ids.has(id)) this.#high.delete(id)
    return running
  }

  /** What cannot be read of one says nothing about the other. */
  async #warn(database: HostDatabase, stats: ContainerReading): Promise<void> {
    const looks = await Promise.allSettled([this.#warnOfMemory(database, stats), this.#warnOfDisk(database)])
    for (const look of looks)
      if (look.status === 'rejected')
        this.#options.log.warn({ err: look.reason, databaseId: database.id }, 'metrics: memory or disk is not known')
  }

  async #warnOfMemory(database: HostDatabase, { residentBytes }: ContainerReading): Promise<void> {
    const { db, log, memoryOf } = this.#options
    const { id, engine, ram_mb: ramMb, memory_warned_at: warnedAt } = database
    const used = engines[engine].inMemory
      ? await memoryOf(database)
      : { usedBytes: residentBytes, limitBytes: ramMb * MiB }
    const high = highInARow(this.#high.get(id) ?? 0, used.usedBytes, used.limitBytes)
    this.#high.set(id, high)
    const verdict = memoryVerdict(used, high, warnedAt !== null)
    if (verdict === 'end') await endMemoryWarning(db, id)
    if (verdict === 'warn' && (await warnOfMemory(db, database, used)))
      log.info({ databaseId: id }, 'metrics: the owner is warned of the memory of a database')
  }

  async #warnOfDisk(database: HostDatabase): Promise<void> {
    const { db, log, diskOf } = this.#options
    const { id, disk_warned: warned } = database
    const disk = await diskOf(database)
    if (!disk || diskWarningLevel(disk.usedBytes, disk.totalBytes, warned) === warned) return
    if (await recordDiskUse(db, database, disk))
      log.info({ databaseId: id }, 'metrics: the owner is warned of the disk of a database')
  }
}
