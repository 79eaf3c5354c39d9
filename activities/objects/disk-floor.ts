import { statfs } from 'node:fs/promises'
import { storeFloor } from '../../policy/objects/store-limits.ts'

/** The room of a disk that bodies do not use: what an account uploads before it is counted must not stop Postgres, which may share the disk. */
export class DiskFloor {
  readonly #folder: string
  #lookedAt = Number.NEGATIVE_INFINITY
  #isFree: Promise<boolean> = Promise.resolve(true)

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Throws ENOSPC when less than the floor is free, as of the last second. */
  async assertFree(): Promise<void> {
    if (performance.now() - this.#lookedAt > storeFloor.lookMs) {
      this.#lookedAt = performance.now()
      this.#isFree = this.#look()
    }
    if (await this.#isFree) return
    this.#lookedAt = Number.NEGATIVE_INFINITY // so that it is noticed immediately when there is room again
    throw Object.assign(new Error('The disk of the object store is nearly full.'), { code: 'ENOSPC' })
  }

  async #look(): Promise<boolean> {
    const { bavail, blocks, bsize } = await statfs(this.#folder)
    return bavail * bsize >= Math.min(storeFloor.bytes, blocks * bsize * storeFloor.share)
  }
}
