import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDb } from '../../activities/analytics/duckdb.ts'
import { dayOf, firstDay } from '../../activities/analytics/expired-days.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'

const markForm = /^(\d{4}-\d{2}-\d{2})\.dropped$/

type Engine = Pick<DuckDb, 'days' | 'remove' | 'removeBroken' | 'size'>

/** Bounds the days of analytics by age and size. */
export class DayBounds {
  readonly #engine: Engine
  readonly #folder: string
  readonly #maxBytes: number
  /** Days that were dropped for their size: their lines are still in the log, and must not be taken in again. */
  #dropped: ReadonlySet<string> = new Set()
  #isFull = false

  constructor(engine: Engine, folder: string, maxBytes: number) {
    this.#engine = engine
    this.#folder = folder
    this.#maxBytes = maxBytes
  }

  /** True while today alone exceeds the size: requests are only counted until it is over. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** Whether lines of a day are taken in. */
  wants(day: string, now: number): boolean {
    return day >= firstDay(now) && !this.#dropped.has(day)
  }

  /** Removes days that are too old, and the oldest ones as long as all exceed the size. Resolves to the days that were dropped for their size. */
  async enforce(now: number): Promise<string[]> {
    for (const day of this.#engine.days()) if (day < firstDay(now)) await this.#engine.remove(day)
    await this.#engine.removeBroken(firstDay(now))
    await this.#readMarks(now)
    if ((await this.#engine.size()) > this.#maxBytes) await this.#engine.removeBroken()
    const dropped: string[] = []
    while ((await this.#engine.size()) > this.#maxBytes) {
      const [oldest] = this.#engine.days()
      // A day has a file only once it has lines: just after midnight yesterday is the newest one, and must not keep today out.
      if (!oldest || oldest >= dayOf(now)) break
      await this.#drop(oldest)
      dropped.push(oldest)
    }
    this.#isFull = (await this.#engine.size()) > this.#maxBytes
    return dropped
  }

  async #drop(day: string): Promise<void> {
    // The mark comes first: without it a kill between the two would bring the day back.
    await writeFile(join(this.#folder, `${day}.dropped`), '')
    await syncFolder(this.#folder)
    this.#dropped = new Set([...this.#dropped, day])
    await this.#engine.remove(day)
  }

  async #readMarks(now: number): Promise<void> {
    const marked = (await readdir(this.#folder)).flatMap(name => markForm.exec(name)?.[1] ?? [])
    for (const day of marked) if (day < firstDay(now)) await rm(join(this.#folder, `${day}.dropped`), { force: true })
    this.#dropped = new Set(marked)
    for (const day of this.#engine.days()) if (this.#dropped.has(day)) await this.#engine.remove(day)
  }
}
