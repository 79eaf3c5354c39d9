import type { LiveEvent, LiveReading } from '../../activities/live-feed.ts'

const mb = 1024 * 1024

/** What a host tells of one application, as the test says. Every opening begins with the figures, as a host's feed does. */
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
  readonly #open = new Set<{ events: LiveEvent[][]; wake: () => void; over: boolean }>()

  /** How many read it now. */
  get readers(): number {
    return this.#open.size
  }

  async *open(signal: AbortSignal): AsyncGenerator<LiveEvent[]> {
    this.opened++
    const line = { events: [[{ reading: this.reading }]] as LiveEvent[][], wake: () => {}, over: false }
    this.#open.add(line)
    signal.addEventListener('abort', () => line.wake())
    try {
      while (!signal.aborted && !line.over) {
        if (line.events.length > 0) yield line.events.shift()!
        else
          await new Promise<void>(resolve => {
            line.wake = resolve
          })
      }
    } finally {
      this.#open.delete(line)
    }
  }

  emit(...events: LiveEvent[]): void {
    for (const line of this.#open) {
      line.events.push(events)
      line.wake()
    }
  }

  print(text: string, stream: 'stdout' | 'stderr' = 'stdout'): void {
    this.emit({ stream, line: text })
  }

  /** The line breaks, as when a host process ends. */
  hangUp(): void {
    for (const line of this.#open) {
      line.over = true
      line.wake()
    }
  }
}
