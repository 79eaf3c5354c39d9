import type { LiveEvent, LiveReading } from '../../../activities/live/live-feed.ts'

const mb = 1024 * 1024

interface Line {
  events: LiveEvent[][]
  wake: () => void
  /** The host ends it, or it breaks. */
  over: 'ended' | 'broken' | undefined
}

/** What is reported for an existing container. */
type Observed = Exclude<LiveEvent, { error: string }>

/**
 * What a host tells of one application, as the test says. Every opening begins with the figures, as a host's feed does
 * (`test/contracts/hosts.ts`); later ones come when the test says so, and not once a second.
 */
export class ScriptedLive {
  reading: LiveReading = {
    state: { status: 'running', running: true, startedAt: '2020-01-01T00:00:00.000Z', exitCode: null, oom: false },
    stats: {
      cpuPercent: 12.345,
      memoryBytes: 120.4 * mb,
      memoryLimitBytes: 512 * mb,
      networkIn: 1000,
      networkOut: 2000,
      blockRead: 3,
      blockWrite: 4,
    },
  }
  opened = 0
  #removed = false
  readonly #open = new Set<Line>()

  /** How many read it now. */
  get readers(): number {
    return this.#open.size
  }

  async *open(signal: AbortSignal): AsyncGenerator<LiveEvent[]> {
    this.opened++
    const first: LiveEvent = this.#removed ? { error: 'CONTAINER_NOT_FOUND' } : { reading: this.reading }
    const line: Line = { events: [[first]], wake: () => {}, over: this.#removed ? 'ended' : undefined }
    this.#open.add(line)
    signal.addEventListener('abort', () => line.wake())
    try {
      while (!signal.aborted) {
        if (line.over === 'broken') throw new TypeError('terminated')
        if (line.events.length > 0) yield line.events.shift()!
        else if (line.over === 'ended') return
        else
          await new Promise<void>(resolve => {
            line.wake = resolve
          })
      }
    } finally {
      this.#open.delete(line)
    }
  }

  emit(...events: Observed[]): void {
    this.#tell(events)
  }

  print(text: string, stream: 'stdout' | 'stderr' = 'stdout'): void {
    this.emit({ stream, line: text })
  }

  /** Sets its state from now on, and reports it to all readers. */
  become(reading: LiveReading): void {
    this.reading = reading
    this.emit({ reading })
  }

  /** Removes the container. Present and later readers get only that. */
  remove(): void {
    this.#removed = true
    this.#tell([{ error: 'CONTAINER_NOT_FOUND' }], 'ended')
  }

  /** The line breaks, as when a host process ends. */
  hangUp(): void {
    this.#tell([], 'broken')
  }

  #tell(events: LiveEvent[], over?: Line['over']): void {
    for (const line of this.#open) {
      if (events.length > 0) line.events.push(events)
      line.over ??= over
      line.wake()
    }
  }
}
