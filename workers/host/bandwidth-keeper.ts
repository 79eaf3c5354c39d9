import type { Logger } from 'pino'
import type { Bandwidth } from '../../activities/bandwidth/port.ts'
import type { ContainerHost, ListedContainer } from '../../activities/containers/port.ts'
import type { Db } from '../../db/database.ts'
import { recordProtection } from '../../db/hosts/hosts.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { bandwidthMbit } from '../../policy/apps/sizes.ts'
import { type BoundedResidents, boundedApps } from './output-readers.ts'
import { EachRun, type RunningContainer } from './watch/each-run.ts'

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
  readonly #states = new Map<BandwidthKeeper, string>()
  #recorded = 'on'
  #recording: Promise<void> = Promise.resolve()

  constructor(db: Db, hostId: string) {
    this.#db = db
    this.#hostId = hostId
  }

  /** `state` is `on`, or `BROKEN: ` and the reason. A state that could not be recorded is recorded with the next one. */
  report(keeper: BandwidthKeeper, state: string): Promise<void> {
    this.#states.set(keeper, state)
    // One after the other: the last to be recorded is the last that was found.
    const recording = this.#recording.then(() => this.#record())
    this.#recording = recording.catch(ignoreError('thrown to the caller'))
    return recording
  }

  async #record(): Promise<void> {
    const worst = [...this.#states.values()].find(one => one !== 'on') ?? 'on'
    if (worst === this.#recorded) return
    await recordProtection(this.#db, this.#hostId, 'bandwidth', worst)
    this.#recorded = worst
  }
}

/** Sets the limits of every run of an application's container, once. */
export class BandwidthKeeper {
  readonly #options: BandwidthKeeperOptions
  readonly #runs: EachRun

  constructor(options: BandwidthKeeperOptions) {
    const { engine, log, residents = boundedApps, now } = options
    this.#options = options
    this.#runs = new EachRun({
      ...{ engine, residents, now },
      begin: container => this.#limit(container),
      onFailure: (error, { name }) =>
        log.warn({ err: error, container: name }, 'bandwidth: a container has no limit yet'),
      onRound: failed => this.#report(failed),
      onError: error => log.warn({ err: error }, 'bandwidth: will try again'),
    })
  }

  /** Receives the running containers of these applications, or of all. Two short programs for each new run. */
  see(containers: readonly ListedContainer[], ids?: ReadonlySet<string>): Promise<void> {
    return this.#options.bandwidth ? this.#runs.see(containers, ids) : Promise.resolve()
  }

  async #limit({ id, process: { pid, memoryMb } }: RunningContainer): Promise<void> {
    const { bandwidth, mbitPer256Mb } = this.#options
    await bandwidth!.limit({ id, pid, mbit: bandwidthMbit(memoryMb, mbitPer256Mb) })
  }

  /** Failures of the previous round: only what fails in two rounds is reported, as a program may just have ended. */
  #failedBefore = new Set<string>()

  async #report(failed: ReadonlyMap<string, { why: string }>): Promise<void> {
    const lasting = [...failed].find(([id]) => this.#failedBefore.has(id))
    this.#failedBefore = new Set(failed.keys())
    await this.#options.states.report(this, lasting ? `BROKEN: ${lasting[1].why}` : 'on')
  }
}
