import { pause } from '../../lib/async/loop.ts'
import { KiB } from '../../lib/bytes.ts'
import type { OutputStream } from '../containers/output.ts'
import type { ContainerHost, ContainerState, ContainerStats } from '../containers/port.ts'
import { nanosecondsNow } from '../containers/stamps.ts'

/** A live event of one application: a line of its output, its stats once a second, or why the feed ended. */
export type LiveEvent =
  | { stream: OutputStream; line: string }
  | { reading: LiveReading }
  | { error: 'CONTAINER_NOT_FOUND' }

export interface LiveReading {
  state: ReturnType<typeof shownState>
  /** Null while it does not run. */
  stats: ContainerStats | null
}

/** The state of a container as readers see it. */
export const shownState = ({ status, running, startedAt, exitCode, oom }: ContainerState) => ({
  status,
  running,
  startedAt: startedAt?.toISOString() ?? null,
  exitCode,
  oom,
})

export interface LiveSource {
  engine: Pick<ContainerHost, 'followLogs' | 'stats'>
  /** The current container; null when there is none. */
  current(): Promise<ContainerState | null>
  /** Interval between reads of the stats, in milliseconds. */
  turnMs?: number
}

/** While a container runs, a newer one is searched for every this many turns; its end shows in the stats immediately. */
const searchEvery = 3
/** Turns without a container that a deploy or restart may cause. */
const graceTurns = 5
/** A program that prints more than this per second is read more slowly: nobody can follow it, and others share the host. */
const bytesPerSecond = 512 * KiB

interface Run {
  name: string
  containerId: string
  leave: AbortController
  ended: Promise<void>
}

/**
 * Follows one application across releases, restarts and stops with one log stream and one timer. Output starts with what is printed
 * from now on; for later runs it is complete. While the engine does not answer, the feed is silent.
 */
export class LiveFeed {
  readonly #source: LiveSource
  readonly #emit: (event: LiveEvent) => void
  readonly #ended = new AbortController()
  /** By container the time of the newest output that was sent or predates the feed; without an entry all output is new. */
  readonly #sentUntil = new Map<string, bigint>()
  #container: ContainerState | null | undefined
  #missing = graceTurns
  #run: Run | undefined
  #second = { startedAt: Number.NEGATIVE_INFINITY, bytes: 0 }

  constructor(source: LiveSource, emit: (event: LiveEvent) => void) {
    this.#source = source
    this.#emit = emit
  }

  stop(): void {
    this.#ended.abort()
  }

  /** Resolves after `stop`, or when the application has no container, which is reported as the last event. */
  async run(): Promise<void> {
    const { signal } = this.#ended
    const { turnMs = 1000 } = this.#source
    for (let turn = 0; !signal.aborted; turn++) {
      const startedAt = performance.now()
      try {
        if (!this.#container?.running || turn % searchEvery === 0) await this.#findContainer()
        if (this.#container) await this.#read(this.#container)
        else if (this.#missing++ >= graceTurns) {
          this.#emit({ error: 'CONTAINER_NOT_FOUND' })
          return this.stop()
        }
      } catch {
        // The engine does not answer: the feed stays silent.
      }
      await pause(turnMs - (performance.now() - startedAt), signal)
    }
  }

  async #findContainer(): Promise<void> {
    const first = this.#container === undefined
    this.#container = await this.#source.current()
    if (!this.#container) return
    if (first) this.#sentUntil.set(this.#container.id, nanosecondsNow())
    this.#missing = 0
    if (this.#container.running) this.#follow(this.#container, first)
  }

  async #read(container: ContainerState): Promise<void> {
    const stats = container.running ? await this.#source.engine.stats(container.name) : null
    // It has ended meanwhile: the next turn finds and reports its state.
    if (container.running && !stats) this.#container = { ...container, running: false }
    else if (!this.#ended.signal.aborted) this.#emit({ reading: { state: shownState(container), stats } })
  }

  /** Moves the log stream to a new run; for a container that was followed before, continues where it stopped. */
  #follow(container: ContainerState, first: boolean): void {
    const before = this.#run
    const name = `${container.id}/${container.startedAt?.getTime()}`
    if (name === before?.name) return
    if (before && before.containerId !== container.id) before.leave.abort()
    const leave = new AbortController()
    const signal = AbortSignal.any([this.#ended.signal, leave.signal])
    const sentUntil = () => this.#sentUntil.get(container.id) ?? 0n
    const listen = (stream: OutputStream, line: string, at: bigint) => {
      if (at > sentUntil()) this.#sentUntil.set(container.id, at)
      return this.#sendLine(stream, line)
    }
    const follow = () =>
      this.#source.engine.followLogs(container.name, first ? {} : { after: sentUntil() }, listen, signal)
    // The stream of an earlier run of the same container ends on its own, after its last output.
    const ended = (before?.ended ?? Promise.resolve()).then(follow).catch(() => {
      if (this.#run === run) this.#run = undefined
    })
    const run: Run = { name, containerId: container.id, leave, ended }
    this.#run = run
  }

  #sendLine(stream: OutputStream, line: string): void | Promise<void> {
    this.#emit({ stream, line })
    const now = performance.now()
    if (now - this.#second.startedAt >= 1000) this.#second = { startedAt: now, bytes: 0 }
    this.#second.bytes += line.length + 1
    if (this.#second.bytes < bytesPerSecond) return
    return pause(this.#second.startedAt + 1000 - now, this.#ended.signal)
  }
}
