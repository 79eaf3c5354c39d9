import type { Logger } from 'pino'
import type { Bandwidth } from '../../activities/bandwidth/port.ts'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import type { Db } from '../../db/database.ts'
import { recordProtection } from '../../db/hosts/hosts.ts'
import { Backoff } from '../../lib/backoff.ts'
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
  #limited = new Map<string, { pid: number; ticks: string | null }>()
  readonly #broken = new Map<string, string>()
  readonly #retries: Backoff
  #written = 'on'
  #running: Promise<void> | undefined

  constructor(options: BandwidthKeeperOptions) {
    this.#options = options
    this.#retries = new Backoff({ ...retries, now: options.now })
  }

  /** Takes what runs now. One container after the other: two short programs each, and nothing for one that is known. */
  see(containers: readonly ListedContainer[]): Promise<void> {
    if (!this.#options.bandwidth) return Promise.resolve()
    this.#running ??= this.#round(containers)
      .catch(error => this.#options.log.warn({ err: error }, 'bandwidth: will look again'))
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  async #round(containers: readonly ListedContainer[]): Promise<void> {
    const running = containers.filter(one => one.running && one.labels[labels.role] === 'app')
    const present = new Set(running.map(({ id }) => id))
    this.#limited = new Map([...this.#limited].filter(([id]) => present.has(id)))
    for (const id of this.#broken.keys()) if (!present.has(id)) this.#forget(id)
    for (const container of running)
      if (!this.#isLimited(container.id) && !this.#retries.waits(container.id)) await this.#limit(container)
    await this.#report()
  }

  #isLimited(id: string): boolean {
    const known = this.#limited.get(id)
    return known !== undefined && startTicks(known.pid) === known.ticks
  }

  async #limit({ id, name }: ListedContainer): Promise<void> {
    const { bandwidth, engine, mbitPer256Mb, log } = this.#options
    try {
      const state = await engine.inspect(name)
      if (!state?.running || state.id !== id) return
      if (!state.process) throw new Error('the engine does not tell the process of a container')
      const { pid, memoryMb } = state.process
      const ticks = startTicks(pid)
      await bandwidth!.limit({ id, pid, mbit: bandwidthMbit(memoryMb, mbitPer256Mb) })
      this.#limited.set(id, { pid, ticks })
      this.#forget(id)
    } catch (error) {
      if (!this.#broken.has(id)) log.warn({ err: error, container: name }, 'bandwidth: a container has no limit yet')
      this.#broken.set(id, (error as Error).message)
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
    const state = lasting ? `BROKEN: ${lasting[1]}` : 'on'
    if (state === this.#written) return
    await recordProtection(db, hostId, 'bandwidth', state)
    this.#written = state
  }
}
