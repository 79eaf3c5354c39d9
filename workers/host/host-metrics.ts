import type { Logger } from 'pino'
import { type ContainerHost, type ContainerStats, labels } from '../../activities/containers/port.ts'
import { saveMetrics } from '../../db/apps/app-metrics.ts'
import { type HostApp, listAppsOfHost } from '../../db/apps/apps.ts'
import { alertHighMemory } from '../../db/apps/memory-alerts.ts'
import type { Db } from '../../db/database.ts'
import { loop } from '../../lib/async/loop.ts'
import { MiB } from '../../lib/bytes.ts'
import { highInARow, memoryAlertRules } from '../../policy/apps/memory-alerts.ts'
import { metricRules } from '../../policy/apps/metrics.ts'
import { type Running, Sampler } from './watch/sampler.ts'

export interface HostMetricsOptions {
  db: Db
  engine: ContainerHost
  hostId: string
  log: Logger
  sampleSeconds?: number
  pointSeconds?: number
}

/** Pause after a round that took longer than the interval. */
const minPauseMs = 1000

/** Samples what runs on this host until the signal aborts, one round at a time; applications, unless given other `metrics`. */
export async function watchMetrics(
  options: HostMetricsOptions,
  signal: AbortSignal,
  metrics: { round(now: number): Promise<void> } = new HostMetrics(options),
): Promise<void> {
  const everyMs = (options.sampleSeconds ?? metricRules.sampleSeconds) * 1000
  await loop(() => metrics.round(Date.now()), {
    signal,
    everyMs: ({ tookMs }) => Math.max(Math.min(minPauseMs, everyMs), everyMs - tookMs),
    onError: error => options.log.warn({ err: error }, 'metrics: will try again'),
  })
}

/** Applications: points of metrics, and memory alerts. */
export class HostMetrics {
  readonly #options: HostMetricsOptions
  readonly #sampler: Sampler<HostApp>
  readonly #high = new Map<string, number>()

  constructor(options: HostMetricsOptions) {
    this.#options = options
    this.#sampler = new Sampler(options, {
      running: () => this.#running(),
      save: points => saveMetrics(options.db, points),
      onReading: (app, stats) => this.#alert(app, stats),
      subjectOf: appId => ({ appId }),
    })
  }

  /** Writes points that are complete at `now`, in milliseconds, and samples everything that runs. */
  round(now: number): Promise<void> {
    return this.#sampler.round(now)
  }

  /** During a deploy, only the version that serves. */
  async #running(): Promise<Running<HostApp>[]> {
    const { db, engine, hostId } = this.#options
    const listed = await engine.list({ [labels.host]: hostId, [labels.role]: 'app' })
    const containers = new Map(listed.map(one => [`${one.labels[labels.app]}/${one.labels[labels.release]}`, one]))
    const running = (await listAppsOfHost(db, hostId)).flatMap(row => {
      const container = containers.get(`${row.id}/${row.release}`)
      return container?.running ? [{ row, container }] : []
    })
    const ids = new Set(running.map(({ row }) => row.id))
    for (const id of this.#high.keys()) if (!ids.has(id)) this.#high.delete(id)
    return running
  }

  async #alert(app: HostApp, { memoryBytes }: ContainerStats): Promise<void> {
    const { db, log } = this.#options
    const high = highInARow(this.#high.get(app.id) ?? 0, memoryBytes, app.ram_mb * MiB)
    this.#high.set(app.id, high)
    if (high === 0 || high % memoryAlertRules.samplesInARow !== 0) return
    if (await alertHighMemory(db, app, memoryBytes)) log.info({ appId: app.id }, 'metrics: memory alert queued')
  }
}
