import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { pause } from '../../lib/async/loop.ts'
import { outputCost, outputPace, outputRate } from '../../policy/apps/output-pace.ts'

export interface OutputReadersOptions {
  engine: Pick<ContainerHost, 'readOutput'>
  log: Logger
  pace?: typeof outputPace
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
  /** Bytes per second, by the id of the container. */
  readonly #rates = new Map<string, number>()

  constructor(options: OutputReadersOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    setMaxListeners(0, signal) // each reader listens for it; Node takes more than ten for a leak, and says so in the log
  }

  /** Takes what runs now: what is new gets a reader, and all get the rates that their number asks for. */
  see(containers: readonly ListedContainer[]): void {
    const running = containers.filter(one => one.running && one.labels[labels.role] === 'app')
    const owned = new Map<string, number>()
    const ownerOf = (one: ListedContainer) => one.labels[labels.owner] ?? ''
    for (const one of running) owned.set(ownerOf(one), (owned.get(ownerOf(one)) ?? 0) + 1)
    for (const container of running) {
      const isNew = !this.#rates.has(container.id)
      this.#rates.set(container.id, outputRate(owned.get(ownerOf(container))!, this.#options.pace))
      if (isNew) void this.#read(container)
    }
  }

  /** Until the program ends; a line that breaks is replaced when its container is seen next. */
  async #read({ id, name }: ListedContainer): Promise<void> {
    const { engine, log, pace = outputPace, wait = pause } = this.#options
    let spent = 0
    let at = performance.now()
    const take = async (piece: Uint8Array) => {
      const rate = this.#rates.get(id) ?? pace.bytesPerSecond
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
      this.#rates.delete(id)
    }
  }
}
