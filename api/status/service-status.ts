import { withTimeout } from '../../lib/async/timeout.ts'
import { cachedSeconds } from '../../policy/cached-answers.ts'

export interface Check {
  key: string
  name: string
  /** Services are components of the platform itself, dependencies what it runs on. */
  kind: 'services' | 'dependencies'
  /** Resolves to null when it is operational, to a sentence when it is degraded, or to details; rejects when it is out of service. */
  probe(): Promise<Health | string | null>
}

/** The result of a probe. */
export interface Health {
  status: 'operational' | 'degraded' | 'outage' | 'maintenance' | 'unknown'
  /** Undefined when it is operational. */
  summary?: string
  /** How many are out of service. */
  unresolved_incidents?: number
  /** How many do not work fully, or accept nothing new. */
  degraded_components?: number
  api_latency?: ApiLatency
}

export interface ApiLatency {
  recent_ms: number
  day_mean_ms: number
  /** Whether it takes far longer now than on average over a day. */
  elevated: boolean
}

interface Entry extends Health {
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
/** While something is wrong it is probed more often. */
const troubledMs = cachedSeconds.serviceTrouble * 1000
const probeMs = 3_000

/** The platform's view of its own components, probed at most every 5 minutes however many clients ask. */
export class ServiceStatus {
  #checks: readonly Check[]
  #report: StatusReport | undefined
  #checkedAt = 0
  #running: Promise<StatusReport> | undefined

  /** `now`: a monotonic clock in milliseconds. */
  constructor(
    checks: readonly Check[],
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#checks = checks
  }

  /** An outdated report is returned immediately, as stale, while the next one is created; only the first caller waits, up to 3 s. */
  async current(): Promise<StatusReport> {
    const age = this.now() - this.#checkedAt
    if (this.#report && age < (this.#report.status === 'online' ? freshMs : troubledMs)) return this.#report
    this.#running ??= this.#check().finally(() => (this.#running = undefined))
    return this.#report && age < 2 * freshMs ? { ...this.#report, stale: true } : this.#running
  }

  async #check(): Promise<StatusReport> {
    const entries = await Promise.all(this.#checks.map(async check => ({ check, entry: await probe(check) })))
    this.#checkedAt = this.now()
    this.#report = reportOf(entries, new Date())
    return this.#report
  }
}

/** The overall report of all results. Pure. */
function reportOf(entries: readonly { check: Pick<Check, 'key' | 'kind'>; entry: Entry }[], at: Date): StatusReport {
  const groupOf = (kind: Check['kind']) =>
    Object.fromEntries(entries.filter(({ check }) => check.kind === kind).map(({ check, entry }) => [check.key, entry]))
  const having = (...statuses: Entry['status'][]) =>
    entries.flatMap(({ entry: { name, status } }) => (statuses.includes(status) ? [name] : []))
  const problems = [
    ['Problems with', having('degraded', 'outage')],
    ['In maintenance', having('maintenance')],
    ['State unknown', having('unknown')],
  ].flatMap(([what, names]) => (names!.length > 0 ? [`${what}: ${(names as string[]).join(', ')}.`] : []))
  const isKnown = entries.some(({ entry }) => entry.status !== 'unknown')
  return {
    status: !isKnown ? 'unknown' : problems.length === 0 ? 'online' : 'degraded',
    message: problems.length === 0 ? 'All systems operational.' : problems.join(' '),
    checked_at: at.toISOString(),
    stale: false,
    services: groupOf('services'),
    dependencies: groupOf('dependencies'),
  }
}

async function probe({ name, probe }: Check): Promise<Entry> {
  try {
    const health = await withTimeout(probe(), probeMs, () => new Error('late'))
    if (health === null) return { name, status: 'operational' }
    return typeof health === 'string' ? { name, status: 'degraded', summary: health } : { name, ...health }
  } catch {
    // The cause is for the operators' log, not for the public.
    return { name, status: 'outage', summary: `${name} does not answer.` }
  }
}
