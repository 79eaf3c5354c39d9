import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { appOf, type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { pause } from '../../lib/async/loop.ts'
import { outputCost, outputPace, outputRate } from '../../policy/apps/output-pace.ts'

export interface OutputReadersOptions {
  engine: Pick<ContainerHost, 'readOutput'>
  log: Logger
  pace?: typeof outputPace
  /** Whose containers get readers; default: applications. */
  residents?: BoundedResidents
  /** Called with an application whose reader has ended: its program has, or the connection broke. */
  ended?: (appId: string) => void
  /** Resolves after `ms` milliseconds; ends early with the signal. */
  wait?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** The containers that bounds apply to, by their role, and the id of what each belongs to. */
export interface BoundedResidents {
  role: string
  idOf(container: ListedContainer): string
}

export const boundedApps: BoundedResidents = { role: 'app', idOf: appOf }

/**
 * Runs one reader for each running application, which stores nothing and reads no faster than its share: the engine waits for its
 * readers, so a program with endless output costs the engine and its other users little. Without a host process no program is slowed down.
 */
export class OutputReaders {
  readonly #options: OutputReadersOptions
  readonly #signal: AbortSignal
  /** Running containers by id. */
  readonly #running = new Map<string, ListedContainer>()
  /** Number of running containers by account. */
  #owned = new Map<string, number>()
  /** Ids of containers that have a reader. */
  readonly #read = new Set<string>()

  constructor(options: OutputReadersOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    setMaxListeners(0, signal) // each reader listens to it; Node would report more than ten listeners as a leak
  }

  /** Receives the running containers of these applications, or of all: new ones get a reader, and all get the rates that their number permits. */
  see(containers: readonly ListedContainer[], ids?: ReadonlySet<string>): void {
    if (ids?.size === 0) return
    const { role, idOf } = this.#options.residents ?? boundedApps
    const running = containers.filter(one => one.running && one.labels[labels.role] === role)
    for (const [id, one] of this.#running) if (!ids || ids.has(idOf(one))) this.#running.delete(id)
    for (const container of running) this.#running.set(container.id, container)
    this.#owned = new Map()
    for (const one of this.#running.values()) this.#owned.set(ownerOf(one), (this.#owned.get(ownerOf(one)) ?? 0) + 1)
    for (const container of running) if (!this.#read.has(container.id)) void this.#follow(container)
  }

  /** Reads until the program ends; a broken connection is replaced when its container is seen next. */
  async #follow(container: ListedContainer): Promise<void> {
    const { engine, log, ended, pace = outputPace, wait = pause, residents = boundedApps } = this.#options
    const { id, name } = container
    this.#read.add(id)
    let spent = 0
    let at = performance.now()
    const onChunk = async (chunk: Uint8Array) => {
      const rate = outputRate(this.#owned.get(ownerOf(container)) ?? 1, pace)
      const now = performance.now()
      spent = Math.max(0, spent - ((now - at) / 1000) * rate) + outputCost(chunk, pace)
      at = now
      const over = spent - pace.burstBytes
      if (over > 0) await wait((over / rate) * 1000, this.#signal)
    }
    try {
      await engine.readOutput(name, onChunk, this.#signal)
    } catch (error) {
      log.warn({ err: error, container: name }, 'output: the reader failed and will be replaced')
    } finally {
      this.#read.delete(id)
      ended?.(residents.idOf(container))
    }
  }
}

const ownerOf = (one: ListedContainer): string => one.labels[labels.owner] ?? ''
