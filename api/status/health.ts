import type { ObjectStore } from '../../activities/objects/port.ts'
import { type Db, isUnavailable } from '../../db/database.ts'
import { listHosts } from '../../db/hosts/hosts.ts'
import { sharedTurns } from '../../lib/async/shared-turns.ts'
import type { ApiLatency, Check, Found } from './service-status.ts'

export interface Probed {
  db: Db
  store: ObjectStore
  /** Rejects when the proxy does not answer. */
  pingEdge(): Promise<unknown>
  /** Rejects when the workflow server does not answer. */
  pingWorkflows(): Promise<unknown>
}

/** What `GET /v2/service/status` looks at; each check really uses its part. */
export function healthChecks({ db, store, pingEdge, pingWorkflows }: Probed): Check[] {
  const latency = new Latency()
  // Two checks are about it: those of one look share a query.
  const askDatabase = sharedTurns(() => queryMs(db))
  return [
    { key: 'api', name: 'API', kind: 'services', probe: () => api(askDatabase('database'), latency) },
    { key: 'applications', name: 'Application hosts', kind: 'services', probe: () => hosts(db) },
    { key: 'edge', name: 'Reverse proxy', kind: 'services', probe: () => well(pingEdge()) },
    { key: 'database', name: 'Database', kind: 'dependencies', probe: () => well(askDatabase('database')) },
    { key: 'workflows', name: 'Workflow server', kind: 'dependencies', probe: () => well(pingWorkflows()) },
    { key: 'storage', name: 'Object store', kind: 'dependencies', probe: () => well(store.head('0'.repeat(32))) },
  ]
}

async function well(probe: PromiseLike<unknown>): Promise<null> {
  await probe
  return null
}

/** The API answers, or nobody would hear this. How fast: a query is what every request needs, and waits for the process too. */
async function api(query: Promise<number>, latency: Latency): Promise<Found> {
  const ms = await query.catch(() => null)
  const api_latency = ms === null ? undefined : latency.add(ms, Date.now())
  if (!api_latency?.elevated) return { status: 'operational', ...(api_latency && { api_latency }) }
  return { status: 'degraded', summary: 'Answers take longer than usual.', api_latency }
}

async function queryMs(db: Db): Promise<number> {
  const begun = performance.now()
  await db.raw('select 1')
  return performance.now() - begun
}

const dayMs = 86_400_000
/** Below this nobody notices, whatever the mean of the day. */
const noticedMs = 250

/** What looks of a day took. */
export class Latency {
  #looks: { at: number; ms: number }[] = []

  /** One more look at the moment `at`, in milliseconds; resolves to how it compares. */
  add(ms: number, at: number): ApiLatency {
    this.#looks = [...this.#looks.filter(look => look.at > at - dayMs), { at, ms }]
    const mean = this.#looks.reduce((sum, look) => sum + look.ms, 0) / this.#looks.length
    return {
      recent_ms: Math.round(ms),
      day_mean_ms: Math.round(mean),
      elevated: ms > Math.max(noticedMs, 3 * mean),
    }
  }
}

/** Hosts that are silent are out; those that drain take nothing new (CLUSTER_MAINTENANCE_TRY_LATER). */
async function hosts(db: Db): Promise<Found | null> {
  const known = await listHosts(db).catch(error => {
    if (isUnavailable(error)) return []
    throw error
  })
  const all = known.filter(host => host.forgotten_at === null)
  if (all.length === 0) return { status: 'unknown', summary: 'Nothing is known of the container hosts.' }
  const silent = all.filter(host => !host.reachable).length
  const draining = all.filter(host => host.reachable && host.draining).length
  if (silent + draining === 0) return null
  const figures = { unresolved_incidents: silent, degraded_components: silent + draining }
  if (silent === all.length) return { status: 'outage', summary: 'No container host answers.', ...figures }
  const told = [
    ...(silent ? [`${silent} of ${all.length} container hosts do not answer.`] : []),
    ...(draining
      ? [`${draining} of ${all.length} container hosts are in maintenance and take no new applications.`]
      : []),
  ]
  return { status: silent ? 'degraded' : 'maintenance', summary: told.join(' '), ...figures }
}
