import type { Logger } from 'pino'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { saveMetrics } from '../../db/apps/app-metrics.ts'
import { type HostApp, listAppsOfHost } from '../../db/apps/apps.ts'
import { alertHighMemory } from '../../db/apps/memory-alerts.ts'
import type { Db } from '../../db/database.ts'
import { mapConcurrently } from '../../lib/async/concurrently.ts'
import { loop } from '../../lib/async/loop.ts'
import { highInARow, memoryAlertRules } from '../../policy/apps/memory-alerts.ts'
import {
  addSample,
  intervalOf,
  type MetricPoint,
  metricRules,
  pointOf,
  type SampleSum,
} from '../../policy/apps/metrics.ts'

export interface HostMetricsOptions {
  db: Db
  engine: ContainerHost
  hostId: string
  log: Logger
  sampleSeconds?: number
  pointSeconds?: number
}

/** Containers that are read concurrently. */
const concurrency = 8
/** Pause after a round that took longer than the interval. */
const minPauseMs = 1000
/** Points that are retained while Postgres is down. */
const maxUnsaved = 20_000

/** Samples the running applications of this host until the signal aborts, one round at a time: points of metrics, and memory alerts. */
export async function watchMetrics(options: HostMetricsOptions, signal: AbortSignal): Promise<void> {
  const metrics = new HostMetrics(options)
  const everyMs = (options.sampleSeconds ?? metricRules.sampleSeconds) * 1000
  await loop(() => metrics.round(Date.now()), {
    signal,
    everyMs: ({ tookMs }) => Math.max(Math.min(minPauseMs, everyMs), everyMs - tookMs),
    onError: error => options.log.warn({ err: error }, 'metrics: will try again'),
  })
}

interface Running {
  app: HostApp
  container: ListedContainer
}

/** The samples of the present interval are only in memory: a host that restarts in the middle of it loses at most that point. */
export class HostMetrics {
  readonly #options: HostMetricsOptions
  readonly #gatherings = new Map<string, SampleSum>()
  readonly #high = new Map<string, number>()
  #unsaved: MetricPoint[] = []

  constructor(options: HostMetricsOptions) {
    this.#options = options
  }

  /** Writes points that are complete at `now`, in milliseconds, and samples everything that runs. */
  async round(now: number): Promise<void> {
    const at = intervalOf(now, this.#options.pointSeconds ?? metricRules.pointSeconds)
    this.#complete(at)
    await this.#save()
    const running = await this.#running()
    const ids = new Set(running.map(({ app }) => app.id))
    for (const id of this.#high.keys()) if (!ids.has(id)) this.#high.delete(id)
    for (const [id, { samples }] of this.#gatherings) if (!ids.has(id) && samples === 0) this.#gatherings.delete(id)
    await mapConcurrently(running, concurrency, one =>
      this.#sample(one, at).catch(error =>
        this.#options.log.warn({ err: error, appId: one.app.id }, 'metrics: no sample'),
      ),
    )
  }

  /** Completes intervals before `at`; only the last one of each application is still needed, as the base of its counters. */
  #complete(at: number): void {
    for (const [appId, gathering] of this.#gatherings) {
      if (gathering.at === at || gathering.samples === 0) continue
      this.#unsaved.push(pointOf(appId, gathering))
      this.#gatherings.set(appId, { ...gathering, samples: 0 })
    }
    this.#unsaved = this.#unsaved.slice(-maxUnsaved)
  }

  async #save(): Promise<void> {
    if (this.#unsaved.length === 0) return
    await saveMetrics(this.#options.db, this.#unsaved)
    this.#unsaved = []
  }

  /** During a deploy, only the version that serves. */
  async #running(): Promise<Running[]> {
    const { db, engine, hostId } = this.#options
    const listed = await engine.list({ [labels.host]: hostId, [labels.role]: 'app' })
    const containers = new Map(listed.map(one => [`${one.labels[labels.app]}/${one.labels[labels.release]}`, one]))
    return (await listAppsOfHost(db, hostId)).flatMap(app => {
      const container = containers.get(`${app.id}/${app.release}`)
      return container?.running ? [{ app, container }] : []
    })
  }

  async #sample({ app, container }: Running, at: number): Promise<void> {
    const { db, engine, log } = this.#options
    const stats = await engine.stats(container.name)
    if (!stats) return
    const run = `${container.id}/${stats.startedAt.getTime()}`
    if (app.ram_mb >= metricRules.fromMemoryMb)
      this.#gatherings.set(app.id, addSample(this.#gatherings.get(app.id), { run, ...stats }, at))
    const high = highInARow(this.#high.get(app.id) ?? 0, stats.memoryBytes, app.ram_mb)
    this.#high.set(app.id, high)
    if (high === 0 || high % memoryAlertRules.samplesInARow !== 0) return
    if (await alertHighMemory(db, app, stats.memoryBytes)) log.info({ appId: app.id }, 'metrics: memory alert queued')
  }
}
