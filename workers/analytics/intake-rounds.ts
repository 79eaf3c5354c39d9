import type { Logger } from 'pino'
import { type LogFile, listLogFiles, readSlice } from '../../activities/analytics/access-log.ts'
import type { Intake, Progress } from '../../activities/analytics/port.ts'
import { intake } from '../../policy/network/analytics-terms.ts'
import type { DayBounds } from './day-bounds.ts'

export interface IntakeOptions {
  engine: Intake
  bounds: DayBounds
  /** Folder of the access log. */
  logFolder: string
  log: Pick<Logger, 'info' | 'warn'>
  now?: () => number
}

/** Takes in what the proxy has logged. */
export class IntakeRounds {
  readonly #options: IntakeOptions & { now: () => number }
  /** Progress by day and file: of files that have not changed nothing is read. */
  readonly #progress = new Map<string, Map<string, Progress>>()
  #wasFull = false
  #behindBytes: number | null = null

  constructor(options: IntakeOptions) {
    this.#options = { ...options, now: options.now ?? Date.now }
  }

  /** Bytes of the log that were not taken in at the end of the last round; null before the first has ended. */
  get behindBytes(): number | null {
    return this.#behindBytes
  }

  /** One round: bounds the days, then takes in one slice of the oldest file that has more. Resolves to whether there is more. */
  async round(): Promise<boolean> {
    const { bounds, logFolder, log, now } = this.#options
    for (const day of await bounds.enforce(now()))
      log.warn({ day }, 'analytics exceed ANALYTICS_MB: the oldest day was dropped')
    if (bounds.isFull && !this.#wasFull)
      log.warn({}, 'today alone exceeds ANALYTICS_MB: until tomorrow requests are counted by time and status only')
    this.#wasFull = bounds.isFull
    const files = (await listLogFiles(logFolder)).filter(({ day }) => bounds.wants(day, now()))
    const hasMore = await this.#takeOne(files)
    this.#behindBytes = await this.#left(files)
    this.#forgetOthers(files)
    return hasMore
  }

  /**
   * Takes in one slice. Resolves to whether there is more already: what arrives meanwhile waits for the next round, or steady traffic would be
   * stored in tiny transactions without a pause.
   */
  async #takeOne(files: readonly LogFile[]): Promise<boolean> {
    for (const [index, file] of files.entries()) {
      const taken = await this.#take(file)
      if (taken) return taken.hasMore || (await this.#left(files.slice(index + 1))) > 0
    }
    return false
  }

  /** Resolves to null when there was nothing to take in. */
  async #take(file: LogFile): Promise<{ hasMore: boolean } | null> {
    const { engine, bounds, logFolder, log } = this.#options
    const progress = await this.#progressOf(file.day)
    const position = progress.get(file.name)
    if (position?.offset === file.size) return null
    const slice = await readSlice(logFolder, file, position)
    if (!slice) return null
    if (slice.isShorter)
      log.warn(
        { file: file.name, takenIn: position?.offset, continuesAt: slice.end },
        'the log is shorter than what was taken in of it: it goes on at its end',
      )
    await engine.take(slice, bounds.isFull).catch(error => {
      // Whether it was stored is the engine's knowledge.
      this.#progress.delete(file.day)
      throw error
    })
    progress.set(file.name, { head: slice.head, offset: slice.end })
    return slice
  }

  async #progressOf(day: string): Promise<Map<string, Progress>> {
    const present = this.#progress.get(day) ?? new Map(await this.#options.engine.progressOf(day))
    this.#progress.set(day, present)
    return present
  }

  async #left(files: readonly LogFile[]): Promise<number> {
    let left = 0
    for (const { day, name, size } of files)
      left += Math.max(0, size - ((await this.#progressOf(day)).get(name)?.offset ?? 0))
    return left
  }

  #forgetOthers(files: readonly LogFile[]): void {
    const days = new Set(files.map(({ day }) => day))
    for (const day of this.#progress.keys()) if (!days.has(day)) this.#progress.delete(day)
  }
}

/** While there is more, a round begins after as long as the one before took: questions get half of the engine. */
export const pauseAfter = (hasMore: boolean, tookMs: number): number => (hasMore ? tookMs : intake.everyMs)
