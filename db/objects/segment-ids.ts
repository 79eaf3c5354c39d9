import { newId } from '../../policy/ids.ts'
import { drawnAheadSeconds } from '../../policy/objects/blob-upkeep.ts'
import type { Db } from '../database.ts'

/** Max ids that one statement allocates. */
const maxBlockSize = 256

/**
 * Segment ids for bytes that are about to be stored. Each has its row before its bytes, as with `allocateSegment`, for a fraction of a statement:
 * the busier the process, the larger the blocks that it allocates.
 */
export class SegmentIds {
  readonly #db: Db
  #ids: string[] = []
  #allocatedAt = 0
  #blockSize = 1
  #allocating: Promise<void> | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /** An unused id. The sweep deletes one that is not used. */
  async take(): Promise<string> {
    for (;;) {
      // The rest of an old block is left to the sweep.
      if (Date.now() - this.#allocatedAt > drawnAheadSeconds * 1000) {
        this.#ids = []
        this.#blockSize = 1
      }
      const id = this.#ids.pop()
      if (id) return id
      this.#allocating ??= this.#allocate().finally(() => {
        this.#allocating = undefined
      })
      await this.#allocating
    }
  }

  async #allocate(): Promise<void> {
    // Stores name folders by the first four characters: the ids of a block share a folder, and their uploads its sync.
    const folder = newId().slice(0, 4)
    const ids = Array.from({ length: this.#blockSize }, () => folder + newId().slice(4))
    const allocatedAt = Date.now()
    await this.#db.raw('insert into segments (id) select unnest(?::text[])', [ids])
    this.#ids = ids
    this.#allocatedAt = allocatedAt
    this.#blockSize = Math.min(maxBlockSize, this.#blockSize * 2)
  }
}
