import { newId } from '../../policy/ids.ts'
import { drawnAheadSeconds } from '../../policy/objects/blob-upkeep.ts'
import type { Db } from '../database.ts'

/** Ids of one statement at most. */
const mostAtOnce = 256

/**
 * Segment ids for bodies that are about to be stored. Each has its row before its bytes, as `draw` makes it, at a fraction of a
 * statement: the busier the process is, the more are drawn at once.
 */
export class SegmentIds {
  readonly #db: Db
  #ids: string[] = []
  #drawnAt = 0
  #atOnce = 1
  #drawing: Promise<void> | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /** An id that nobody else has. Whoever does not use it leaves it to the sweep. */
  async take(): Promise<string> {
    for (;;) {
      // A block is used up, or left to the sweep.
      if (Date.now() - this.#drawnAt > drawnAheadSeconds * 1000) {
        this.#ids = []
        this.#atOnce = 1
      }
      const id = this.#ids.pop()
      if (id) return id
      this.#drawing ??= this.#draw().finally(() => {
        this.#drawing = undefined
      })
      await this.#drawing
    }
  }

  async #draw(): Promise<void> {
    // Stores make folders of the first four characters: a block goes into one, so that its uploads share that folder's sync.
    const folder = newId().slice(0, 4)
    const ids = Array.from({ length: this.#atOnce }, () => folder + newId().slice(4))
    const drawnAt = Date.now()
    await this.#db.raw('insert into segments (id) select unnest(?::text[])', [ids])
    this.#ids = ids
    this.#drawnAt = drawnAt
    this.#atOnce = Math.min(mostAtOnce, this.#atOnce * 2)
  }
}
