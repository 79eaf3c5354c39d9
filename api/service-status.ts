import { cachedSeconds } from '../policy/cached-answers.ts'
export interface Check {
  key: string
  name: string
  /** Services are parts of the platform, dependencies what it stands on. */
  kind: 'services' | 'dependencies'
  /** Resolves to null when all is well, to a sentence when it works with limits; rejects when it is out. */
  probe(): Promise<string | null>
}

export interface Entry {
  name: string
  status: 'operational' | 'degraded' | 'outage'
  summary?: string
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
  const troubled = entries.filter(({ entry }) => entry.status !== 'operational')
  return {
    status: troubled.length === 0 ? 'online' : 'degraded',
    message:
      troubled.length === 0
        ? 'All systems operational.'
        : `Trouble with: ${troubled.map(({ entry }) => entry.name).join(', ')}.`,
    checked_at: at.toISOString(),
    stale: false,
    services: groupOf('services'),
    dependencies: groupOf('dependencies'),
  }
}

async function probe({ name, probe }: Check): Promise<Entry> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('late')), probeMs)
  })
  try {
    const summary = await Promise.race([probe(), late])
    return summary === null ? { name, status: 'operational' } : { name, status: 'degraded', summary }
  } catch {
    // The cause is for the operators' log, not for the public.
    return { name, status: 'outage', summary: `${name} does not answer.` }
  } finally {
    clearTimeout(timer)
  }
}
