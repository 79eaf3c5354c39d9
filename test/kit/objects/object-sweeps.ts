import type { ObjectStore } from '../../../activities/objects/port.ts'
import { sweepSegments } from '../../../activities/objects/segment-sweep.ts'
import type { Db } from '../../../db/database.ts'
import { openReceipt } from '../../../db/objects/blob-receipts.ts'
import { newId } from '../../../policy/ids.ts'

const atOnce = { drawnSeconds: 0, unreferencedSeconds: 0, downloadSeconds: 0, retrySeconds: 0 }

/** The sweeps of a run. They do not wait, and remove unreferenced segments of every account. */
export class Sweeps {
  #started = 0
  #running = 0

  async sweep(db: Db, store: ObjectStore): Promise<void> {
    this.#started++
    this.#running++
    const receipt = newId()
    await openReceipt(db, receipt, 'sweep')
    try {
      await sweepSegments({ db, store }, receipt, atOnce)
    } catch (error) {
      // Only a sweep that does not wait meets segments that are still arriving; the next sweep, or their sender, continues with these.
      if (!/^The object store reported the deletion of \w+ but still has it\.$/.test((error as Error).message))
        throw error
    } finally {
      this.#running--
    }
  }

  /** Begins to watch; what comes back says whether one has run since. */
  watch(): () => boolean {
    const [started, running] = [this.#started, this.#running]
    return () => running > 0 || this.#started > started
  }
}
