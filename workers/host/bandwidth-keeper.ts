import type { Logger } from 'pino'
import type { Bandwidth } from '../../activities/bandwidth/port.ts'
import { appOf, type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import type { Db } from '../../db/database.ts'
import { recordProtection } from '../../db/hosts/hosts.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { startTicks } from '../../lib/process-stat.ts'
import { bandwidthMbit } from '../../policy/apps/sizes.ts'

export interface BandwidthKeeperOptions {
  db: Db
  engine: Pick<ContainerHost, 'inspect'>
  bandwidth: Bandwidth | null
  mbitPer256Mb: number
  hostId: string
  log: Logger
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number
}

/** Less than the host watch's round, so that the next one tries again: most failures are of a program that has just ended. */
const retries = { firstSeconds: 4, maxSeconds: 60 }

/** Gives every start of an application's container its limits, once; what could not be done is tried again, after delays that grow to a minute. */
export class BandwidthKeeper {
  readonly #options: BandwidthKeeperOptions
  /** The first process of each container that has its limits: another start has another one. The engine is asked once for each. */
  readonly #limited = new Map<string, { appId: string; pid: number; ticks: string | null }>()
  readonly #broken = new Map<string, { container: ListedContainer; why: string }>()
  readonly #retries: Backoff
  #written = 'on'
  /** Seen and not looked at yet. */
  #news = new Map<string, ListedContainer>()
  #running: Promise<void> | undefined

  constructor(options: BandwidthKeeperOptions) {
    this.#options = options
    this.#retries = new Backoff({ ...retries, now: options.now })
  }

  /**
   * Takes what runs now of these applications, or of all. One container after the other: two short programs each, and nothing for one
   * that is known. What could not be done before is tried again when its time has come.
   */
  see(containers: readonly ListedContainer[], ids?: ReadonlySet<string>): Promise<void> {
    if (!this.#options.bandwidth) return Promise.resolve()
    const running = containers.filter(one => one.running && one.labels[labels.role] === 'app')
    if (ids?.size !== 0) this.#forgetOthers(new Set(running.map(({ id }) => id)), ids)
    for (const { container } of this.#broken.values()) this.#news.set(container.id, container)
    for (const container of running) this.#news.set(container.id, container)
    this.#running ??= this.#rounds()
      .catch(error => this.#options.log.warn({ err: error }, 'bandwidth: will look again'))
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  /** Those of these applications, or of all, that run no more. */
  #forgetOthers(present: ReadonlySet<string>, ids: ReadonlySet<string> | undefined): void {
    const over = (id: string, appId: string) => !present.has(id) && (!ids || ids.has(appId))
    for (const [id, { appId }] of this.#limited) if (over(id, appId)) this.#limited.delete(id)
    for (const [id, { container }] of this.#broken) if (over(id, appOf(container))) this.#forget(id)
    for (const [id, container] of this.#news) if (over(id, appOf(container))) this.#news.delete(id)
  }

  /** What is seen while a round goes on has one of its own after it. */
  async #rounds(): Promise<void> {
    do {
      const containers = this.#news
      this.#news = new Map()
      for (const container of containers.values())
        if (!this.#isLimited(container.id) && !this.#retries.waits(container.id)) await this.#limit(container)
      await this.#report()
    } while (this.#news.size > 0)
  }

  #isLimited(id: string): boolean {
    const known = this.#limited.get(id)
    return known !== undefined && startTicks(known.pid) === known.ticks
  }

  async #limit(container: ListedContainer): Promise<void> {
    const { id, name } = container
    const { bandwidth, engine, mbitPer256Mb, log } = this.#options
    try {
      const state = await engine.inspect(name)
      if (!state?.running || state.id !== id) return
      if (!state.process) throw new Error('the engine does not tell the process of a container')
      const { pid, memoryMb } = state.process
      const ticks = startTicks(pid)
      await bandwidth!.limit({ id, pid, mbit: bandwidthMbit(memoryMb, mbitPer256Mb) })
      this.#limited.set(id, { appId: appOf(container), pid, ticks })
      this.#forget(id)
    } catch (error) {
      if (!this.#broken.has(id)) log.warn({ err: error, container: name }, 'bandwidth: a container has no limit yet')
      this.#broken.set(id, { container, why: (error as Error).message })
      this.#retries.seen(id)
    }
  }

  #forget(id: string): void {
    this.#broken.delete(id)
    this.#retries.forget(id)
  }

  /** A program that ended meanwhile is no news: only what fails in two rounds is written down. */
  #doubted = new Set<string>()

  async #report(): Promise<void> {
    const { db, hostId } = this.#options
    const lasting = [...this.#broken].find(([id]) => this.#doubted.has(id))
    this.#doubted = new Set(this.#broken.keys())
    const state = lasting ? `BROKEN: ${lasting[1].why}` : 'on'
    if (state === this.#written) return
    await recordProtection(db, hostId, 'bandwidth', state)
    this.#written = state
  }
}
