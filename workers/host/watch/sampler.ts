import type { Logger } from 'pino'
import type { ContainerHost, ContainerReading, ListedContainer } from '../../../activities/containers/port.ts'
import { mapConcurrently } from '../../../lib/async/concurrently.ts'
import {
  addSample,
  intervalOf,
  type MetricPoint,
  metricRules,
  pointOf,
  type SampleSum,
} from '../../../policy/apps/metrics.ts'
import type { Subject } from './apart.ts'

/** What has points of metrics, and its container that serves. */
export interface Running<Row> {
  row: Row
  container: ListedContainer
}

export interface Sampled<Row> {
  /** All that run on this host now. */
  running(): Promise<Running<Row>[]>
  /** Stores points that are complete. */
  save(points: readonly MetricPoint[]): Promise<void>
  /** Receives each reading. */
  onReading?(row: Row, stats: ContainerReading): Promise<void>
  subjectOf(id: string): Subject
}

export interface SamplerOptions {
  engine: Pick<ContainerHost, 'stats'>
  log: Logger
  pointSeconds?: number | undefined
}

/** Containers that are read concurrently. */
const concurrency = 8
/** Points that are retained while Postgres is down. */
const maxUnsaved = 20_000

/** The samples of the present interval are only in memory: a host that restarts in the middle of it loses at most that point. */
export class Sampler<Row extends { id: string; ram_mb: number }> {
  readonly #options: SamplerOptions
  readonly #sampled: Sampled<Row>
  readonly #gatherings = new Map<string, SampleSum>()
  #unsaved: MetricPoint[] = []

  constructor(options: SamplerOptions, sampled: Sampled<Row>) {
    this.#options = options
    this.#sampled = sampled
  }

  /** Writes points that are complete at `now`, in milliseconds, and samples everything that runs. */
  async round(now: number): Promise<void> {
    const at = intervalOf(now, this.#options.pointSeconds ?? metricRules.pointSeconds)
    this.#complete(at)
    await this.#save()
    const running = await this.#sampled.running()
    const ids = new Set(running.map(({ row }) => row.id))
    for (const [id, { samples }] of this.#gatherings) if (!ids.has(id) && samples === 0) this.#gatherings.delete(id)
    await mapConcurrently(running, concurrency, one =>
      this.#sample(one, at).catch(error =>
        this.#options.log.warn({ err: error, ...this.#sampled.subjectOf(one.row.id) }, 'metrics: no sample'),
      ),
    )
  }

  /** Completes intervals before `at`; only the last one of each is still needed, as the base of its counters. */
  #complete(at: number): void {
    for (const [id, gathering] of this.#gatherings) {
      if (gathering.at === at || gathering.samples === 0) continue
      this.#unsaved.push(pointOf(id, gathering))
      this.#gatherings.set(id, { ...gathering, samples: 0 })
    }
    this.#unsaved = this.#unsaved.slice(-maxUnsaved)
  }

  async #save(): Promise<void> {
    if (this.#unsaved.length === 0) return
    await this.#sampled.save(this.#unsaved)
    this.#unsaved = []
  }

  async #sample({ row, container }: Running<Row>, at: number): Promise<void> {
    const stats = await this.#options.engine.stats(container.name)
    if (!stats) return
    const run = `${container.id}/${stats.startedAt.getTime()}`
    if (row.ram_mb >= metricRules.fromMemoryMb)
      this.#gatherings.set(row.id, addSample(this.#gatherings.get(row.id), { run, ...stats }, at))
    await this.#sampled.onReading?.(row, stats)
  }
}
