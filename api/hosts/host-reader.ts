import type { ContainerStats } from '../../activities/containers/port.ts'
import { type AppRow, recordStats } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { ApiError } from '../../policy/errors.ts'
import { type HostCall, hostFailure } from './host-call.ts'

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

/** Reads from the server of each host. */
export function httpHostReader(db: Db, ask: HostCall): HostReader {
  const kept = new Map<string, number>()

  /** Beside the answer, never before it. */
  function keep(appId: string, reading: HostReading): void {
    const now = Date.now()
    if (!reading.stats || now - (kept.get(appId) ?? 0) < keepEveryMs) return
    if (kept.size >= mostKept) kept.clear()
    kept.set(appId, now)
    recordStats(db, appId, reading).catch(() => kept.delete(appId))
  }

  return {
    async stats(app) {
      const response = await ask(app, { path: 'stats', deadlineMs: statsDeadlineMs, whole: true }).catch(silence)
      const reading = response?.ok ? ((await response.json().catch(() => null)) as HostReading | null) : null
      if (reading) keep(app.id, reading)
      return reading
    },

    async logs(app, maxBytes) {
      const path = `logs?maxBytes=${maxBytes}`
      const response = await ask(app, { path, deadlineMs: logsDeadlineMs, whole: true })
      if (response.status === 404) return null
      if (!response.ok) throw new ApiError('CLUSTER_UNAVAILABLE')
      return response.text().catch(error => {
        throw hostFailure(error)
      })
    },
  }
}

/** A host that does not answer is no failure; a database that does not is. */
function silence(error: unknown): null {
  if (error instanceof ApiError) return null
  throw error
}
