import * as fs from 'node:fs'
import { setImmediate as breath } from 'node:timers/promises'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'

/**
 * One change of the application's folder: a file of the sources is put there, a folder is made, an old file is taken away,
 * a folder that became empty is removed (with its mode).
 */
export type Change =
  | readonly ['put', path: string]
  | readonly ['folder', path: string, mode: number]
  | readonly ['take', path: string]
  | readonly ['remove', path: string, mode: number]

/** Changes that are written down together: one wait for the disk for all of them. */
const together = 256

/** What a release was about to change, line by line and on disk before the change itself. */
export class Journal {
  readonly changes: Change[]
  readonly #fd: number

  constructor(release: Tree) {
    const text = release.read(recordNames.journal) ?? ''
    // A line without its end was never acted on.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    this.changes = whole
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
    this.#fd = fs.openSync(release.at(recordNames.journal), 'a', 0o600)
    fs.ftruncateSync(this.#fd, Buffer.byteLength(whole))
  }

  /** Writes changes down; they have the numbers from the returned one on. */
  intend(changes: readonly Change[]): number {
    fs.writeFileSync(this.#fd, changes.map(change => `${JSON.stringify(change)}\n`).join(''))
    fs.fdatasyncSync(this.#fd)
    this.changes.push(...changes)
    return this.changes.length - changes.length
  }

  /** Writes down and carries out. Between pieces the process notices that nobody waits for it any more. */
  async carryOut<T extends Change>(changes: readonly T[], act: (change: T, number: number) => void): Promise<void> {
    for (let from = 0; from < changes.length; from += together) {
      const piece = changes.slice(from, from + together)
      const first = this.intend(piece)
      for (const [index, change] of piece.entries()) act(change, first + index)
      await breath()
    }
  }

  close(): void {
    fs.closeSync(this.#fd)
  }
}
