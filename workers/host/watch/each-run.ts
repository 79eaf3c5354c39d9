import {
  type ContainerHost,
  type ContainerState,
  type ListedContainer,
  labels,
} from '../../../activities/containers/port.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { startTicks } from '../../../lib/process-stat.ts'
import type { BoundedResidents } from '../output-readers.ts'

export type RunningContainer = ContainerState & Required<Pick<ContainerState, 'process'>>

export interface EachRunOptions {
  engine: Pick<ContainerHost, 'inspect'>
  /** Whose containers are meant. */
  residents: BoundedResidents
  /** Called once for each run of a container; what rejects is called again after delays that grow to a minute. */
  begin(container: RunningContainer): Promise<void>
  /** Receives the first failure of a run. */
  onFailure(error: unknown, container: ListedContainer): void
  /** Called after each round with the reasons of those that fail, by the id of the container. */
  onRound?(failed: ReadonlyMap<string, { why: string }>): Promise<void>
  /** Receives what `onRound` rejects with. */
  onError?(error: unknown): void
  /** Milliseconds of a monotonic clock. */
  now?: (() => number) | undefined
}

/** Shorter than a round of the host watch, so that the next one tries again: most failures concern a program that has just ended. */
const retries = { firstSeconds: 4, maxSeconds: 60 }

/** Does something once for each run of a container, no matter what has started it. */
export class EachRun {
  readonly #options: EachRunOptions
  /** The first process of each container that is done: another run has another process. The engine is queried once for each. */
  readonly #done = new Map<string, { residentId: string; pid: number; ticks: string | null }>()
  readonly #failed = new Map<string, { container: ListedContainer; why: string }>()
  readonly #retries: Backoff
  /** Seen but not processed yet. */
  #pending = new Map<string, ListedContainer>()
  #running: Promise<void> | undefined

  constructor(options: EachRunOptions) {
    this.#options = options
    this.#retries = new Backoff({ ...retries, now: options.now })
  }

  /**
   * Receives the running containers of these residents, or of all. Processes one container at a time, and does nothing for one that is done
   * already. Earlier failures are retried when they are due. Never rejects.
   */
  see(containers: readonly ListedContainer[], ids?: ReadonlySet<string>): Promise<void> {
    const { role } = this.#options.residents
    const running = containers.filter(one => one.running && one.labels[labels.role] === role)
    if (ids?.size !== 0) this.#forgetOthers(new Set(running.map(({ id }) => id)), ids)
    for (const { container } of this.#failed.values()) this.#pending.set(container.id, container)
    for (const container of running) this.#pending.set(container.id, container)
    this.#running ??= this.#rounds()
      .catch(error => this.#options.onError?.(error))
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  /** Forgets containers of these residents, or of all, that no longer run. */
  #forgetOthers(present: ReadonlySet<string>, ids: ReadonlySet<string> | undefined): void {
    const { idOf } = this.#options.residents
    const hasEnded = (id: string, residentId: string) => !present.has(id) && (!ids || ids.has(residentId))
    for (const [id, { residentId }] of this.#done) if (hasEnded(id, residentId)) this.#done.delete(id)
    for (const [id, { container }] of this.#failed) if (hasEnded(id, idOf(container))) this.#forget(id)
    for (const [id, container] of this.#pending) if (hasEnded(id, idOf(container))) this.#pending.delete(id)
  }

  /** Containers that are seen during a round are processed in another one after it. */
  async #rounds(): Promise<void> {
    do {
      const containers = this.#pending
      this.#pending = new Map()
      for (const container of containers.values())
        if (!this.#isDone(container.id) && !this.#retries.waits(container.id)) await this.#begin(container)
      await this.#options.onRound?.(this.#failed)
    } while (this.#pending.size > 0)
  }

  #isDone(id: string): boolean {
    const process = this.#done.get(id)
    return process !== undefined && startTicks(process.pid) === process.ticks
  }

  async #begin(container: ListedContainer): Promise<void> {
    const { id, name } = container
    const { begin, engine, residents, onFailure } = this.#options
    try {
      const state = await engine.inspect(name)
      if (!state?.running || state.id !== id) return
      const { process } = state
      if (!process) throw new Error('the engine does not report the process of a container')
      const ticks = startTicks(process.pid)
      if (ticks === null) throw new Error('the process of the container has just ended')
      await begin({ ...state, process })
      this.#done.set(id, { residentId: residents.idOf(container), pid: process.pid, ticks })
      this.#forget(id)
    } catch (error) {
      if (!this.#failed.has(id)) onFailure(error, container)
      this.#failed.set(id, { container, why: (error as Error).message })
      this.#retries.seen(id)
    }
  }

  #forget(id: string): void {
    this.#failed.delete(id)
    this.#retries.forget(id)
  }
}
