import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { appOf, type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { pause } from '../../lib/async/loop.ts'
import { outputCost, outputPace, outputRate } from '../../policy/apps/output-pace.ts'

export interface OutputReadersOptions {
  engine: Pick<ContainerHost, 'readOutput'>
  log: Logger
  pace?: typeof outputPace
  /** Called with an application whose reader has ended: its program has, or the connection broke. */
  ended?: (appId: string) => void
  /** Resolves after so many milliseconds; ends early with the signal. */
  wait?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/**
 * One reader for each running application, who keeps nothing and takes no more than its share: the engine waits for whoever reads, so
 * a program that prints without end costs the engine, and all who need it, little. While no host process lives nobody is held up.
 */
export class OutputReaders {
  readonly #options: OutputReadersOptions
  readonly #signal: AbortSignal
  /** What runs, by the id of the container. */
  readonly #running = new Map<string, ListedContainer>()
  /** How many of an account run. */
  #owned = new Map<string, number>()
  /** Ids of containers that have a reader. */
  readonly #read = new Set<string>()

  constructor(options: OutputReadersOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    setMaxListeners(0, signal) // each reader listens for it; Node takes more than ten for a leak, and says so in the log
  }

  /** Takes what runs now of these applications, or of all: what is new gets a reader, and all get the rates that their number allows. */
  see(containers: readonly ListedContainer[], ids?: ReadonlySet<string>): void {
    if (ids?.size === 0) return
    const running = containers.filter(one => one.running && one.labels[labels.role] === 'app')
    for (const [id, one] of this.#running) if (!ids || ids.has(appOf(one))) this.#running.delete(id)
    for (const container of running) this.#running.set(container.id, container)
    this.#owned = new Map()
    for (const one of this.#running.values()) this.#owned.set(ownerOf(one), (this.#owned.get(ownerOf(one)) ?? 0) + 1)
    for (const container of running) if (!this.#read.has(container.id)) void this.#follow(container)
  }

  /** Until the program ends; a line that breaks is replaced when its container is seen next. */
  async #follow(container: ListedContainer): Promise<void> {
    const { engine, log, ended, pace = outputPace, wait = pause } = this.#options
    const { id, name } = container
    this.#read.add(id)
    let spent = 0
    let at = performance.now()
    const take = async (piece: Uint8Array) => {
      const rate = outputRate(this.#owned.get(ownerOf(container)) ?? 1, pace)
      const now = performance.now()
      spent = Math.max(0, spent - ((now - at) / 1000) * rate) + outputCost(piece, pace)
      at = now
      const over = spent - pace.burstBytes
      if (over > 0) await wait((over / rate) * 1000, this.#signal)
    }
    try {
      await engine.readOutput(name, take, this.#signal)
    } catch (error) {
      log.warn({ err: error, container: name }, 'output: nobody reads it for a moment')
    } finally {
      this.#read.delete(id)
      ended?.(appOf(container))
    }
  }
}

const ownerOf = (one: ListedContainer): string => one.labels[labels.owner] ?? ''
