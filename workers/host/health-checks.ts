import type { Logger } from 'pino'
import { type ProbeOutcome, probe } from '../../activities/health/probe.ts'
import { type CheckedApp, listCheckedApps, recordHealth, restartUnhealthy } from '../../db/apps/app-health.ts'
import type { HostApp } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { isBusy } from '../../db/operations/operations.ts'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { loop } from '../../lib/async/loop.ts'
import { healthChecks, judge, ranLongEnough } from '../../policy/hosts/health-checks.ts'

export interface HealthChecksOptions {
  db: Db
  hostId: string
  appsDomain: string
  log: Logger
  /** Rejects when another process has taken over this host. */
  held?(): Promise<void>
  everyMs?: number
  withinMs?: number
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

interface Checked {
  dueAt: number
  /** A check waits or is open: it stays until that is over, so that no other one begins. */
  busy: boolean
  unwanted: boolean
  /** The run, and its path, of which `failures` are, in a row. */
  run: string
  failures: number
}

/** How often due checks are started; nothing is due without an application that names a path. */
const lookMs = 500

/**
 * Checks of the applications of one host that name a path for it (contract 5.21), spread over their interval. Accounts share the open
 * checks fairly: one whose programs hang delays its own only. Only changes of health are written.
 */
export class HealthChecks {
  readonly #options: HealthChecksOptions
  readonly #now: () => number
  readonly #everyMs: number
  readonly #checked = new Map<string, Checked>()
  readonly #slots = new FairSlots({ atOnce: healthChecks.atOnce, perSubject: healthChecks.perAccount })
  /** One for each open check: a signal warns of many listeners. */
  readonly #open = new Set<AbortController>()
  readonly #running = new Set<Promise<void>>()
  #ended = false

  constructor(options: HealthChecksOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#everyMs = options.everyMs ?? healthChecks.everySeconds * 1000
  }

  /** Receives the rows of the host's applications as the host watch reads them: all, or those of `ids`. */
  readonly see = (rows: readonly Pick<HostApp, 'id' | 'status' | 'health_path'>[], ids?: ReadonlySet<string>): void => {
    const checkable = new Set(
      rows.filter(row => row.health_path !== null && row.status === 'running').map(({ id }) => id),
    )
    for (const id of ids ?? this.#checked.keys()) this.#setWanted(id, checkable.has(id))
    for (const id of checkable)
      if (!this.#checked.has(id)) {
        const dueAt = this.#now() + Math.random() * this.#everyMs
        this.#checked.set(id, { dueAt, busy: false, unwanted: false, run: '', failures: 0 })
      }
  }

  #setWanted(id: string, isWanted: boolean): void {
    const one = this.#checked.get(id)
    if (!one) return
    one.unwanted = !isWanted
    if (!isWanted && !one.busy) this.#checked.delete(id)
  }

  /** Begins the checks that are due; does nothing at all without one. Rejects when Postgres is down. */
  async round(): Promise<void> {
    const now = this.#now()
    const due = [...this.#checked].filter(([, { busy, dueAt }]) => !busy && dueAt <= now)
    if (due.length === 0) return
    // Its moment stays its own, however long this process stood still.
    for (const [, one] of due) one.dueAt += this.#everyMs * (Math.floor((now - one.dueAt) / this.#everyMs) + 1)
    const { db, hostId } = this.#options
    const ids = due.map(([id]) => id)
    for (const app of await listCheckedApps(db, hostId, ids)) {
      const check = this.#begin(app).finally(() => this.#running.delete(check))
      this.#running.add(check)
    }
  }

  /** Resolves once no check waits or is open. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Ends open checks without an outcome; no more are started. */
  async end(): Promise<void> {
    this.#ended = true
    for (const open of this.#open) open.abort()
    await this.settled()
  }

  async #begin(app: CheckedApp): Promise<void> {
    const one = this.#checked.get(app.id)
    if (!one) return
    one.busy = true
    const queuedAt = this.#now()
    const release = await this.#slots.enter(app.owner_id)
    try {
      await this.#check(app, one, this.#now() - queuedAt)
    } catch (error) {
      if (!this.#ended) this.#options.log.warn({ err: error, appId: app.id }, 'health: will check it again')
    } finally {
      release?.()
      one.busy = false
      if (one.unwanted) this.#checked.delete(app.id)
    }
  }

  async #check(listed: CheckedApp, one: Checked, waitedMs: number): Promise<void> {
    const { db, hostId } = this.#options
    // Meanwhile its port may have become that of another program.
    const [app] = waitedMs > healthChecks.freshMs ? await listCheckedApps(db, hostId, [listed.id]) : [listed]
    if (!app || this.#ended) return
    const outcome = await this.#probe(app)
    if (outcome?.own) return
    await this.#conclude(app, one, outcome)
  }

  async #probe({ address, host_port: port, health_path: path, subdomain }: CheckedApp): Promise<ProbeOutcome> {
    const { appsDomain, withinMs } = this.#options
    const open = new AbortController()
    this.#open.add(open)
    try {
      const host = `${subdomain}.${appsDomain}`
      return await probe({ address, port, path, host, signal: open.signal, ...(withinMs && { withinMs }) })
    } finally {
      this.#open.delete(open)
    }
  }

  async #conclude(app: CheckedApp, one: Checked, outcome: ProbeOutcome): Promise<void> {
    const { db, held, log } = this.#options
    const reason = outcome?.reason ?? null
    const run = `${app.container_id}/${app.started_at.getTime()}${app.health_path}`
    // A program that an operation is ending, or whose files it replaces, has not failed, and did not fail before it.
    if (reason !== null && (await isBusy(db, app.id))) {
      Object.assign(one, { run, failures: 0 })
      return
    }
    const failures = one.run === run ? one.failures : 0
    const judged = judge({ status: app.health?.status ?? null, failures }, reason === null)
    Object.assign(one, { run, failures: judged.failures })
    const restarts = judged.isDown && app.may_restart && ranLongEnough(app.started_at, new Date())
    if (!judged.becomes && !restarts) return
    await held?.()
    if (judged.becomes && (await recordHealth(db, app, { status: judged.becomes, reason })))
      log.info({ appId: app.id, health: judged.becomes, reason }, 'health')
    if (restarts && reason !== null && (await restartUnhealthy(db, app, reason)))
      log.info({ appId: app.id, reason }, 'health: restarted')
  }
}

/** Begins checks as they are due, until the signal aborts. */
export async function watchHealth(checks: HealthChecks, log: Logger, signal: AbortSignal): Promise<void> {
  const onError = (error: unknown) => log.warn({ err: error }, 'health: will try again')
  await loop(() => checks.round(), { signal, everyMs: lookMs, onError })
  await checks.end()
}
