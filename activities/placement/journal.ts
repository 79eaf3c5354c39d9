import * as fs from 'node:fs'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'

/**
 * One change of the application's folder: `put` a file of the sources there, create a `folder`, `take` an old file away,
 * or `remove` a folder that became empty (with its mode).
 */
export type Change =
  | readonly ['put', path: string]
  | readonly ['folder', path: string, mode: number]
  | readonly ['take', path: string]
  | readonly ['remove', path: string, mode: number]

/** Changes that are recorded together, with one sync of the disk. */
const batchSize = 256

/** Records each change of a release on the disk, line by line, before the change itself. */
export class Journal {
  readonly changes: Change[]
  readonly #fd: number

  constructor(release: Tree) {
    const text = release.read(recordNames.journal) ?? ''
    // An incomplete line was never acted on.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    this.changes = whole
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
    this.#fd = fs.openSync(release.at(recordNames.journal), 'a', 0o600)
    fs.ftruncateSync(this.#fd, Buffer.byteLength(whole))
  }

  /** Records changes; returns the number of the first, the others follow. */
  record(changes: readonly Change[]): number {
    fs.writeFileSync(this.#fd, changes.map(change => `${JSON.stringify(change)}\n`).join(''))
    fs.fdatasyncSync(this.#fd)
    this.changes.push(...changes)
    return this.changes.length - changes.length
  }

  /** Records and carries out changes. Between batches the process can notice that its parent has ended. */
  async carryOut<T extends Change>(changes: readonly T[], act: (change: T, number: number) => void): Promise<void> {
    for (let from = 0; from < changes.length; from += batchSize) {
      const batch = changes.slice(from, from + batchSize)
      const first = this.record(batch)
      for (const [index, change] of batch.entries()) act(change, first + index)
      await yieldToEventLoop()
    }
  }

  close(): void {
    fs.closeSync(this.#fd)
  }
}
