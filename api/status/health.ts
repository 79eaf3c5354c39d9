import type { ObjectStore } from '../../activities/objects/port.ts'
import { type Db, isUnavailable } from '../../db/database.ts'
import { listHosts } from '../../db/hosts/hosts.ts'
import { coalesced } from '../../lib/async/coalesced.ts'
import { dayMs } from '../../lib/time.ts'
import type { ApiLatency, Check, Health } from './service-status.ts'

export interface Probed {
  db: Db
  store: ObjectStore
  /** Rejects when the proxy does not answer. */
  pingEdge(): Promise<unknown>
  /** Rejects when the workflow server does not answer. */
  pingWorkflows(): Promise<unknown>
}

/** The checks of `GET /v2/service/status`; each really uses its component. */
export function healthChecks({ db, store, pingEdge, pingWorkflows }: Probed): Check[] {
  const latency = new Latency()
  // Two checks are about the database; those of one round share a query.
  const askDatabase = coalesced(() => queryMs(db))
  return [
    { key: 'api', name: 'API', kind: 'services', probe: () => api(askDatabase('database'), latency) },
    { key: 'applications', name: 'Application hosts', kind: 'services', probe: () => hosts(db) },
    { key: 'edge', name: 'Reverse proxy', kind: 'services', probe: () => healthy(pingEdge()) },
    { key: 'database', name: 'Database', kind: 'dependencies', probe: () => healthy(askDatabase('database')) },
    { key: 'workflows', name: 'Workflow server', kind: 'dependencies', probe: () => healthy(pingWorkflows()) },
    { key: 'storage', name: 'Object store', kind: 'dependencies', probe: () => healthy(store.head('0'.repeat(32))) },
  ]
}

async function healthy(probe: PromiseLike<unknown>): Promise<null> {
  await probe
  return null
}

/** The API is up, or this would not run. Its speed is that of a query, which every request needs and which waits for the process too. */
async function api(query: Promise<number>, latency: Latency): Promise<Health> {
  const ms = await query.catch(() => null)
  const api_latency = ms === null ? undefined : latency.add(ms, Date.now())
  if (!api_latency?.elevated) return { status: 'operational', ...(api_latency && { api_latency }) }
  return { status: 'degraded', summary: 'Response times are higher than usual.', api_latency }
}

async function queryMs(db: Db): Promise<number> {
  const startedAt = performance.now()
  await db.raw('select 1')
  return performance.now() - startedAt
}

/** Below this no one notices, whatever the mean of the day. */
const noticeableMs = 250

/** The durations of a day's probes. */
export class Latency {
  #probes: { at: number; ms: number }[] = []

  /** Adds a probe at the time `at`, in milliseconds; returns how it compares. */
  add(ms: number, at: number): ApiLatency {
    this.#probes = [...this.#probes.filter(probe => probe.at > at - dayMs), { at, ms }]
    const mean = this.#probes.reduce((sum, probe) => sum + probe.ms, 0) / this.#probes.length
    return {
      recent_ms: Math.round(ms),
      day_mean_ms: Math.round(mean),
      elevated: ms > Math.max(noticeableMs, 3 * mean),
    }
  }
}

/** Unreachable hosts are an outage; draining ones take no new applications (CLUSTER_MAINTENANCE_TRY_LATER). */
async function hosts(db: Db): Promise<Health | null> {
  const rows = await listHosts(db).catch(error => {
    if (isUnavailable(error)) return []
    throw error
  })
  const all = rows.filter(host => host.forgotten_at === null)
  if (all.length === 0) return { status: 'unknown', summary: 'The state of the container hosts is unknown.' }
  const silent = all.filter(host => !host.reachable).length
  const draining = all.filter(host => host.reachable && host.draining).length
  if (silent + draining === 0) return null
  const figures = { unresolved_incidents: silent, degraded_components: silent + draining }
  if (silent === all.length) return { status: 'outage', summary: 'No container host is reachable.', ...figures }
  const summaries = [
    ...(silent ? [`${silent} of ${all.length} container hosts are unreachable.`] : []),
    ...(draining
      ? [`${draining} of ${all.length} container hosts are in maintenance and accept no new applications.`]
      : []),
  ]
  return { status: silent ? 'degraded' : 'maintenance', summary: summaries.join(' '), ...figures }
}
