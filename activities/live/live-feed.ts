import { pause } from '../../lib/async/loop.ts'
import { KiB } from '../../lib/bytes.ts'
import type { OutputStream } from '../containers/output.ts'
import type { ContainerHost, ContainerState, ContainerStats } from '../containers/port.ts'
import { nanosecondsNow } from '../containers/stamps.ts'

/** What a host tells of one application as it happens: a line of its output, its figures once a second, or why it tells no more. */
export type LiveEvent =
  | { stream: OutputStream; line: string }
  | { reading: LiveReading }
  | { error: 'CONTAINER_NOT_FOUND' }

export interface LiveReading {
  state: ReturnType<typeof shownState>
  /** Null while it does not run. */
  stats: ContainerStats | null
}

/** What readers are told of a container. */
export const shownState = ({ status, running, startedAt, exitCode, oom }: ContainerState) => ({
  status,
  running,
  startedAt: startedAt?.toISOString() ?? null,
  exitCode,
  oom,
})

export interface LiveSource {
  engine: Pick<ContainerHost, 'followLogs' | 'stats'>
  /** The container that counts now; null when there is none. */
  newest(): Promise<ContainerState | null>
  /** One turn, in milliseconds: how often figures are read. */
  turnMs?: number
}

/** While a container runs, a newer one is looked for in every so many turns; its end shows in the figures at once. */
const lookEvery = 3
/** Between two containers of a deploy or restart there may be none for so many turns. */
const graceTurns = 5
/** A program that prints faster than this per second is read more slowly: nobody reads along, and others share the host. */
const bytesPerSecond = 512 * KiB

interface Run {
  name: string
  containerId: string
  leave: AbortController
  ended: Promise<void>
}

/**
 * Follows one application over releases, restarts and stops with one log stream and one timer. Output begins with what is printed
 * from now on; of every later run it is complete. While the engine is silent, so is the feed.
 */
export class LiveFeed {
  readonly #source: LiveSource
  readonly #emit: (event: LiveEvent) => void
  readonly #ended = new AbortController()
  /** By container the newest of its output that was told, or was there before; all of one that is not here is news. */
  readonly #told = new Map<string, bigint>()
  #container: ContainerState | null | undefined
  #missing = graceTurns
  #run: Run | undefined
  #second = { begun: Number.NEGATIVE_INFINITY, bytes: 0 }

  constructor(source: LiveSource, emit: (event: LiveEvent) => void) {
    this.#source = source
    this.#emit = emit
  }

  stop(): void {
    this.#ended.abort()
  }

  /** Resolves after `stop`, or when the application has no container (any more), which is its last event. */
  async run(): Promise<void> {
    const { signal } = this.#ended
    const { turnMs = 1000 } = this.#source
    for (let turn = 0; !signal.aborted; turn++) {
      const begun = performance.now()
      try {
        if (!this.#container?.running || turn % lookEvery === 0) await this.#look()
        if (this.#container) await this.#read(this.#container)
        else if (this.#missing++ >= graceTurns) {
          this.#emit({ error: 'CONTAINER_NOT_FOUND' })
          return this.stop()
        }
      } catch {
        // The engine does not answer. Whoever reads hears nothing, and draws the conclusion.
      }
      await pause(turnMs - (performance.now() - begun), signal)
    }
  }

  async #look(): Promise<void> {
    const first = this.#container === undefined
    this.#container = await this.#source.newest()
    if (!this.#container) return
    if (first) this.#told.set(this.#container.id, nanosecondsNow())
    this.#missing = 0
    if (this.#container.running) this.#follow(this.#container, first)
  }

  async #read(container: ContainerState): Promise<void> {
    const stats = container.running ? await this.#source.engine.stats(container.name) : null
    // It ended since it was looked at: the next turn looks anew, and tells how it stands.
    if (container.running && !stats) this.#container = { ...container, running: false }
    else if (!this.#ended.signal.aborted) this.#emit({ reading: { state: shownState(container), stats } })
  }

  /** The log stream moves on to a new run; a container that it comes back to goes on where it was left. */
  #follow(container: ContainerState, first: boolean): void {
    const before = this.#run
    const name = `${container.id}/${container.startedAt?.getTime()}`
    if (name === before?.name) return
    if (before && before.containerId !== container.id) before.leave.abort()
    const leave = new AbortController()
    const signal = AbortSignal.any([this.#ended.signal, leave.signal])
    const told = () => this.#told.get(container.id) ?? 0n
    const listen = (stream: OutputStream, line: string, at: bigint) => {
      if (at > told()) this.#told.set(container.id, at)
      return this.#take(stream, line)
    }
    const follow = () => this.#source.engine.followLogs(container.name, first ? {} : { after: told() }, listen, signal)
    // An earlier run of the same container ends by itself, with its last words.
    const ended = (before?.ended ?? Promise.resolve()).then(follow).catch(() => {
      if (this.#run === run) this.#run = undefined
    })
    const run: Run = { name, containerId: container.id, leave, ended }
    this.#run = run
  }

  #take(stream: OutputStream, line: string): void | Promise<void> {
    this.#emit({ stream, line })
    const now = performance.now()
    if (now - this.#second.begun >= 1000) this.#second = { begun: now, bytes: 0 }
    this.#second.bytes += line.length + 1
    if (this.#second.bytes < bytesPerSecond) return
    return pause(this.#second.begun + 1000 - now, this.#ended.signal)
  }
}
