import type { Logger } from 'pino'
import type { Bandwidth } from '../activities/bandwidth.ts'
import { type ContainerState, labels } from '../activities/container-host.ts'
import type { Db } from '../db/database.ts'
import { recordProtection } from '../db/hosts.ts'
import { bandwidthMbit } from '../policy/sizes.ts'

export interface BandwidthKeeperOptions {
  db: Db
  bandwidth: Bandwidth | null
  mbitPer256Mb: number
  hostId: string
  log: Logger
}

/** Gives every start of an application's container its limits, once; what could not be done is tried again when it is seen next. */
export class BandwidthKeeper {
  readonly #options: BandwidthKeeperOptions
  /** Starts that have their limits. */
  #limited = new Set<string>()
  #broken = new Map<string, string>()
  #written = 'on'
  #running: Promise<void> | undefined

  constructor(options: BandwidthKeeperOptions) {
    this.#options = options
  }

  /** Takes what runs now. One container after the other: two short programs each, and nothing for one that is known. */
  see(containers: readonly ContainerState[]): Promise<void> {
    if (!this.#options.bandwidth) return Promise.resolve()
    this.#running ??= this.#round(containers)
      .catch(error => this.#options.log.warn({ err: error }, 'bandwidth: will look again'))
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  async #round(containers: readonly ContainerState[]): Promise<void> {
    const running = containers.filter(one => one.running && one.labels[labels.role] === 'app')
    const starts = new Set(running.map(startOf))
    this.#limited = new Set([...this.#limited].filter(start => starts.has(start)))
    this.#broken = new Map([...this.#broken].filter(([start]) => starts.has(start)))
    for (const container of running) if (!this.#limited.has(startOf(container))) await this.#limit(container)
    await this.#report()
  }

  async #limit(container: ContainerState): Promise<void> {
    const { bandwidth, mbitPer256Mb, log } = this.#options
    const { id, name, process } = container
    const start = startOf(container)
    try {
      if (!process) throw new Error('the engine does not tell the process of a container')
      await bandwidth!.limit({ id, pid: process.pid, mbit: bandwidthMbit(process.memoryMb, mbitPer256Mb) })
      this.#limited.add(start)
      this.#broken.delete(start)
    } catch (error) {
      if (!this.#broken.has(start)) log.warn({ err: error, container: name }, 'bandwidth: a container has no limit yet')
      this.#broken.set(start, (error as Error).message)
    }
  }

  /** A program that ended meanwhile is no news: only what fails in two rounds is written down. */
  #doubted = new Set<string>()

  async #report(): Promise<void> {
    const { db, hostId } = this.#options
    const lasting = [...this.#broken].find(([start]) => this.#doubted.has(start))
    this.#doubted = new Set(this.#broken.keys())
    const state = lasting ? `BROKEN: ${lasting[1]}` : 'on'
    if (state === this.#written) return
    await recordProtection(db, hostId, 'bandwidth', state)
    this.#written = state
  }
}

const startOf = ({ id, startedAt }: ContainerState): string => `${id} ${startedAt?.getTime() ?? 0}`
