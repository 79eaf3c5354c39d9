import { withTimeout } from '../../lib/async/timeout.ts'
import { cachedSeconds } from '../../policy/cached-answers.ts'
export interface Check {
  key: string
  name: string
  /** Services are parts of the platform, dependencies what it stands on. */
  kind: 'services' | 'dependencies'
  /** Resolves to null when all is well, to a sentence when it works with limits, or to more than that; rejects when it is out. */
  probe(): Promise<Found | string | null>
}

/** What a look has found. */
export interface Found {
  status: 'operational' | 'degraded' | 'outage' | 'maintenance' | 'unknown'
  /** Told unless it is operational. */
  summary?: string
  /** What is out and has not come back. */
  unresolved_incidents?: number
  /** What does not work as it should, or takes nothing new. */
  degraded_components?: number
  api_latency?: ApiLatency
}

export interface ApiLatency {
  recent_ms: number
  day_mean_ms: number
  /** Whether it takes far longer now than it did on the mean of a day. */
  elevated: boolean
}

export interface Entry extends Found {
  name: string
}

export interface StatusReport {
  status: 'online' | 'degraded' | 'unknown'
  message: string
  checked_at?: string
  stale?: boolean
  services?: Record<string, Entry>
  dependencies?: Record<string, Entry>
}

const freshMs = cachedSeconds.serviceStatus * 1000
/** While something is wrong it is looked at more often. */
const troubledMs = cachedSeconds.serviceTrouble * 1000
const probeMs = 3_000

/** The platform's own view of its parts, probed at most every 5 minutes whoever asks. */
export class ServiceStatus {
  #checks: readonly Check[]
  #report: StatusReport | undefined
  #checkedAt = 0
  #running: Promise<StatusReport> | undefined

  constructor(checks: readonly Check[]) {
    this.#checks = checks
  }

  /** An aged report is given at once as stale while the next is made; only the first caller waits, at most 3 s. */
  async current(): Promise<StatusReport> {
    const age = Date.now() - this.#checkedAt
    if (this.#report && age < (this.#report.status === 'online' ? freshMs : troubledMs)) return this.#report
    this.#running ??= this.#check().finally(() => (this.#running = undefined))
    return this.#report && age < 2 * freshMs ? { ...this.#report, stale: true } : this.#running
  }

  async #check(): Promise<StatusReport> {
    const entries = await Promise.all(this.#checks.map(async check => ({ check, entry: await probe(check) })))
    this.#checkedAt = Date.now()
    this.#report = reportOf(entries, new Date(this.#checkedAt))
    return this.#report
  }
}

/** What the single results come to. Pure. */
export function reportOf(
  entries: readonly { check: Pick<Check, 'key' | 'kind'>; entry: Entry }[],
  at: Date,
): StatusReport {
  const groupOf = (kind: Check['kind']) =>
    Object.fromEntries(entries.filter(({ check }) => check.kind === kind).map(({ check, entry }) => [check.key, entry]))
  const having = (...statuses: Entry['status'][]) =>
    entries.flatMap(({ entry: { name, status } }) => (statuses.includes(status) ? [name] : []))
  const told = [
    ['Trouble with', having('degraded', 'outage')],
    ['In maintenance', having('maintenance')],
    ['Nothing is known of', having('unknown')],
  ].flatMap(([what, names]) => (names!.length > 0 ? [`${what}: ${(names as string[]).join(', ')}.`] : []))
  const isKnown = entries.some(({ entry }) => entry.status !== 'unknown')
  return {
    status: !isKnown ? 'unknown' : told.length === 0 ? 'online' : 'degraded',
    message: told.length === 0 ? 'All systems operational.' : told.join(' '),
    checked_at: at.toISOString(),
    stale: false,
    services: groupOf('services'),
    dependencies: groupOf('dependencies'),
  }
}

async function probe({ name, probe }: Check): Promise<Entry> {
  try {
    const found = await withTimeout(probe(), probeMs, () => new Error('late'))
    if (found === null) return { name, status: 'operational' }
    return typeof found === 'string' ? { name, status: 'degraded', summary: found } : { name, ...found }
  } catch {
    // The cause is for the operators' log, not for the public.
    return { name, status: 'outage', summary: `${name} does not answer.` }
  }
}
