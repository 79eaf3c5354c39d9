import type { FileHandle } from 'node:fs/promises'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { storeSyncs } from '../../policy/objects/store-limits.ts'

/** Of the process, as its threads are. */
const slots = {
  large: new FairSlots(storeSyncs.large),
  small: new FairSlots(storeSyncs.small),
  folders: new FairSlots(storeSyncs.folders),
}

/** Runs a sync of a folder in one of the slots for these, in the order of the calls. */
export async function inFolderSlot(folder: string, sync: (folder: string) => Promise<void>): Promise<void> {
  const leave = await slots.folders.enter(folder)
  await sync(folder).finally(leave)
}

type Synced = Pick<FileHandle, 'datasync'>

/**
 * The syncs of a file that is being written. A large file is synced while it is written, so that the last sync is short; accounts take turns
 * with the threads.
 */
export class DiskSyncs {
  readonly #subject: string
  #bytes = 0
  #unsynced = 0
  #running: Promise<void> | undefined

  constructor(subject: string) {
    this.#subject = subject
  }

  /** Counts bytes that are about to be written. When a sync of those before is due, it begins, and the one before it has ended; true then. */
  async count(file: Synced, bytes: number): Promise<boolean> {
    const isDue = this.#unsynced >= storeSyncs.everyBytes
    if (isDue) {
      await this.#running
      this.#unsynced = 0
      this.#running = this.#sync(file)
      this.#running.catch(ignoreError('reported when it is awaited'))
    }
    this.#bytes += bytes
    this.#unsynced += bytes
    return isDue
  }

  /** Makes all bytes durable. */
  async end(file: Synced): Promise<void> {
    await this.#running
    await this.#sync(file)
  }

  async #sync(file: Synced): Promise<void> {
    const leave = await slots[this.#bytes > storeSyncs.smallBytes ? 'large' : 'small'].enter(this.#subject)
    await file.datasync().finally(leave)
  }
}
