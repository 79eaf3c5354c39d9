import type { Logger } from 'pino'
import type { Bandwidth } from '../../activities/bandwidth/port.ts'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import type { Db } from '../../db/database.ts'
import { recordProtection } from '../../db/hosts/hosts.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { startTicks } from '../../lib/process-stat.ts'
import { bandwidthMbit } from '../../policy/apps/sizes.ts'
import { type BoundedResidents, boundedApps } from './output-readers.ts'

export interface BandwidthKeeperOptions {
  /** Shared by all keepers of a host. */
  states: BandwidthStates
  engine: Pick<ContainerHost, 'inspect'>
  bandwidth: Bandwidth | null
  mbitPer256Mb: number
  log: Logger
  /** Whose containers are limited; default: applications. */
  residents?: BoundedResidents
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

/** What the keepers of one host have found, recorded as one protection: it is broken while one of them has a failure. */
export class BandwidthStates {
  readonly #db: Db
  readonly #hostId: string
  readonly #found = new Map<BandwidthKeeper, string>()
  #recorded = 'on'
  #recording: Promise<void> = Promise.resolve()

  constructor(db: Db, hostId: string) {
    this.#db = db
    this.#hostId = hostId
  }

  /** `state` is `on`, or `BROKEN: ` and the reason. A state that could not be recorded is recorded with the next one. */
  report(keeper: BandwidthKeeper, state: string): Promise<void> {
    this.#found.set(keeper, state)
    // One after the other: the last to be recorded is the last that was found.
    const recording = this.#recording.then(() => this.#record())
    this.#recording = recording.catch(ignoreError('thrown to the caller'))
    return recording
  }

  async #record(): Promise<void> {
    const worst = [...this.#found.values()].find(one => one !== 'on') ?? 'on'
    if (worst === this.#recorded) return
    await recordProtection(this.#db, this.#hostId, 'bandwidth', worst)
    this.#recorded = worst
  }
}

/** Shorter than a round of the host watch, so that the next one tries again: most failures concern a program that has just ended. */
const retries = { firstSeconds: 4, maxSeconds: 60 }

/** Sets the limits of every start of an application's container, once; retries failures after delays that grow to a minute. */
export class BandwidthKeeper {
  readonly #options: BandwidthKeeperOptions
  readonly #residents: BoundedResidents
  /** The first process of each limited container: another start has another process. The engine is queried once for each. */
  readonly #limited = new Map<string, { appId: string; pid: number; ticks: string | null }>()
  readonly #failed = new Map<string, { container: ListedContainer; why: string }>()
  readonly #retries: Backoff
  /** Seen but not processed yet. */
  #pending = new Map<string, ListedContainer>()
  #running: Promise<void> | undefined

  constructor(options: BandwidthKeeperOptions) {
    this.#options = options
    this.#residents = options.residents ?? boundedApps
    this.#retries = new Backoff({ ...retries, now: options.now })
  }

  /**
   * Receives the running containers of these applications, or of all. Processes one container at a time: two short programs each, and
   * nothing for a container that is limited already. Earlier failures are retried when they are due.
   */
  see(containers: readonly ListedContainer[], ids?: ReadonlySet<string>): Promise<void> {
    if (!this.#options.bandwidth) return Promise.resolve()
    const { role } = this.#residents
    const running = containers.filter(one => one.running && one.labels[labels.role] === role)
    if (ids?.size !== 0) this.#forgetOthers(new Set(running.map(({ id }) => id)), ids)
    for (const { container } of this.#failed.values()) this.#pending.set(container.id, container)
    for (const container of running) this.#pending.set(container.id, container)
    this.#running ??= this.#rounds()
      .catch(error => this.#options.log.warn({ err: error }, 'bandwidth: will try again'))
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  /** Forgets containers of these applications, or of all, that no longer run. */
  #forgetOthers(present: ReadonlySet<string>, ids: ReadonlySet<string> | undefined): void {
    const hasEnded = (id: string, appId: string) => !present.has(id) && (!ids || ids.has(appId))
    for (const [id, { appId }] of this.#limited) if (hasEnded(id, appId)) this.#limited.delete(id)
    for (const [id, { container }] of this.#failed) if (hasEnded(id, this.#residents.idOf(container))) this.#forget(id)
    for (const [id, container] of this.#pending)
      if (hasEnded(id, this.#residents.idOf(container))) this.#pending.delete(id)
  }

  /** Containers that are seen during a round are processed in another one after it. */
  async #rounds(): Promise<void> {
    do {
      const containers = this.#pending
      this.#pending = new Map()
      for (const container of containers.values())
        if (!this.#isLimited(container.id) && !this.#retries.waits(container.id)) await this.#limit(container)
      await this.#report()
    } while (this.#pending.size > 0)
  }

  #isLimited(id: string): boolean {
    const process = this.#limited.get(id)
    return process !== undefined && startTicks(process.pid) === process.ticks
  }

  async #limit(container: ListedContainer): Promise<void> {
    const { id, name } = container
    const { bandwidth, engine, mbitPer256Mb, log } = this.#options
    try {
      const state = await engine.inspect(name)
      if (!state?.running || state.id !== id) return
      if (!state.process) throw new Error('the engine does not report the process of a container')
      const { pid, memoryMb } = state.process
      const ticks = startTicks(pid)
      await bandwidth!.limit({ id, pid, mbit: bandwidthMbit(memoryMb, mbitPer256Mb) })
      this.#limited.set(id, { appId: this.#residents.idOf(container), pid, ticks })
      this.#forget(id)
    } catch (error) {
      if (!this.#failed.has(id)) log.warn({ err: error, container: name }, 'bandwidth: a container has no limit yet')
      this.#failed.set(id, { container, why: (error as Error).message })
      this.#retries.seen(id)
    }
  }

  #forget(id: string): void {
    this.#failed.delete(id)
    this.#retries.forget(id)
  }

  /** Failures of the previous round: only what fails in two rounds is reported, as a program may just have ended. */
  #failedBefore = new Set<string>()

  async #report(): Promise<void> {
    const lasting = [...this.#failed].find(([id]) => this.#failedBefore.has(id))
    this.#failedBefore = new Set(this.#failed.keys())
    await this.#options.states.report(this, lasting ? `BROKEN: ${lasting[1].why}` : 'on')
  }
}
