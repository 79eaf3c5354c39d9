import type { ContainerStats } from '../activities/container-host.ts'
import { type AppRow, recordStats } from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import { findHost, type HostRow } from '../db/hosts.ts'
import { ApiError } from '../policy/errors.ts'
import { hostReadKey } from '../policy/keys.ts'

/** What a host says about one application now. Memory, network and storage in bytes. */
export interface HostReading {
  /** Null when there is no container (yet, or any more). */
  state: { status: string; running: boolean; startedAt: string | null; exitCode: number | null; oom: boolean } | null
  stats: ContainerStats | null
  storageBytes: number
}

/** Streaming reads, asked of the application's host directly and never through Temporal. */
export interface HostReader {
  /** Null when the host does not answer. */
  stats(app: AppRow): Promise<HostReading | null>
  /** Null when there are none. Throws CLUSTER_UNAVAILABLE and CLUSTER_TIMEOUT. */
  logs(app: AppRow, maxBytes: number): Promise<string | null>
}

/** An engine measures for a second before it says how busy a container is. */
const statsDeadlineMs = 3000
const logsDeadlineMs = 3000

/** The last figures are kept about this often, in milliseconds, for the time when the host does not answer. */
const keepEveryMs = 30_000
const mostKept = 10_000

/** Reads over HTTP from the server of each host, with that host's key. */
export function httpHostReader(db: Db, masterKey: string): HostReader {
  const kept = new Map<string, number>()

  /** Beside the answer, never before it. */
  function keep(appId: string, reading: HostReading): void {
    const now = Date.now()
    if (!reading.stats || now - (kept.get(appId) ?? 0) < keepEveryMs) return
    if (kept.size >= mostKept) kept.clear()
    kept.set(appId, now)
    recordStats(db, appId, reading).catch(() => kept.delete(appId))
  }

  const keys = new Map<string, string>()

  function keyOf(hostId: string): string {
    const key = keys.get(hostId) ?? hostReadKey(masterKey, hostId)
    keys.set(hostId, key)
    return key
  }

  async function ask(host: HostRow, path: string, deadlineMs: number): Promise<Response> {
    return fetch(`${host.read_url}${path}`, {
      headers: { Authorization: `Bearer ${keyOf(host.id)}` },
      signal: AbortSignal.timeout(deadlineMs),
      redirect: 'error',
    })
  }

  return {
    async stats(app) {
      const host = await reachableHost(db, app)
      if (!host) return null
      try {
        const response = await ask(host, `/apps/${app.id}/stats`, statsDeadlineMs)
        if (!response.ok) return null
        const reading = (await response.json()) as HostReading
        keep(app.id, reading)
        return reading
      } catch {
        return null
      }
    },

    async logs(app, maxBytes) {
      const host = await reachableHost(db, app)
      if (!host) throw new ApiError('CLUSTER_UNAVAILABLE')
      try {
        const response = await ask(host, `/apps/${app.id}/logs?maxBytes=${maxBytes}`, logsDeadlineMs)
        if (response.status === 404) return null
        if (!response.ok) throw new ApiError('CLUSTER_UNAVAILABLE')
        return await response.text()
      } catch (error) {
        if (error instanceof ApiError) throw error
        throw new ApiError((error as Error).name === 'TimeoutError' ? 'CLUSTER_TIMEOUT' : 'CLUSTER_UNAVAILABLE')
      }
    },
  }
}

async function reachableHost(db: Db, app: AppRow): Promise<HostRow | undefined> {
  const host = await findHost(db, app.host_id)
  return host?.reachable && host.read_url ? host : undefined
}
