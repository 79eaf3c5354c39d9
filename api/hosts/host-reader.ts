import type { ContainerStats } from '../../activities/containers/port.ts'
import { recordStats } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { recordDatabaseStats } from '../../db/databases/databases.ts'
import { CodedError } from '../../policy/errors.ts'
import { type HostCall, type Hosted, hostFailure } from './host-call.ts'

/** A host's current figures of one application or database. Memory, network and storage in bytes. */
export interface HostReading {
  /** Null when there is no container (yet, or any more). */
  state: { status: string; running: boolean; startedAt: string | null; exitCode: number | null; oom: boolean } | null
  stats: ContainerStats | null
  storageBytes: number
}

/** Reads that go to the host of an application or a database directly and never through Temporal. */
export interface HostReader {
  /** Null when the host does not answer. */
  stats(hosted: Hosted): Promise<HostReading | null>
  /** Null when there are none. Throws CLUSTER_UNAVAILABLE and CLUSTER_TIMEOUT. */
  logs(hosted: Hosted, maxBytes: number): Promise<string | null>
}

/** An engine measures for a second before it reports the CPU usage of a container. */
const statsDeadlineMs = 3000
const logsDeadlineMs = 3000

/** The last figures are stored about this often, in milliseconds, for when the host does not answer. */
const storeEveryMs = 30_000
const maxEntries = 10_000

/** Reads from the server of each host. `now`: a monotonic clock in milliseconds. */
export function httpHostReader(db: Db, ask: HostCall, now: () => number = () => performance.now()): HostReader {
  const storedAt = new Map<string, number>()

  /** Stores a reading without delaying the answer. */
  function store(hosted: Hosted, reading: HostReading): void {
    const { id } = hosted
    const at = now()
    if (!reading.stats || at - (storedAt.get(id) ?? Number.NEGATIVE_INFINITY) < storeEveryMs) return
    if (storedAt.size >= maxEntries) storedAt.clear()
    storedAt.set(id, at)
    const record = 'engine' in hosted ? recordDatabaseStats : recordStats
    record(db, id, reading).catch(() => storedAt.delete(id))
  }

  return {
    async stats(hosted) {
      const response = await ask(hosted, { path: 'stats', deadlineMs: statsDeadlineMs, whole: true }).catch(silence)
      const reading = response?.ok ? ((await response.json().catch(() => null)) as HostReading | null) : null
      if (reading) store(hosted, reading)
      return reading
    },

    async logs(hosted, maxBytes) {
      const path = `logs?maxBytes=${maxBytes}`
      const response = await ask(hosted, { path, deadlineMs: logsDeadlineMs, whole: true })
      if (response.status === 404) return null
      if (!response.ok) throw new CodedError('CLUSTER_UNAVAILABLE')
      return response.text().catch(error => {
        throw hostFailure(error)
      })
    },
  }
}

/** A host that does not answer is not a failure here; a database that does not is. */
function silence(error: unknown): null {
  if (error instanceof CodedError) return null
  throw error
}
