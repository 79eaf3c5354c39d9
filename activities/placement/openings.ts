import * as fs from 'node:fs'
import { openedMode, type Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import type { Places } from './places.ts'

/** A folder of the application that its owner could not access: its path, its inode, and the mode to restore. */
type Opening = readonly [path: string, ino: number, mode: number]

/**
 * Runs work on an application's folder, making inaccessible folders on its paths accessible, and restores their modes at the end. Each
 * opening is recorded on the disk before it happens, so that the next attempt, or the undo, restores the mode after a kill.
 */
export async function withOpenings<T>(
  { files, release }: Places,
  work: (openings: Openings) => Promise<T>,
): Promise<T> {
  const outer = [files.beforeOpening, release.beforeOpening] as const
  const openings = new Openings(release)
  files.beforeOpening = (path, stats) => openings.record([path, stats.ino, stats.mode & 0o7777])
  release.beforeOpening = () => {} // what lies there no longer belongs to the application
  try {
    const result = await work(openings)
    openings.restoreModes(files)
    return result
  } finally {
    openings.close()
    files.beforeOpening = outer[0]
    release.beforeOpening = outer[1]
    files.forget()
  }
}

export class Openings {
  readonly #openings: Opening[]
  /** A separate tree, because names that a tree returns are only valid until its next step. */
  readonly #release: Tree
  #fd: number | null = null

  constructor(release: Tree) {
    this.#release = release.tree('.')
    const text = this.#release.read(recordNames.opened) ?? ''
    // An incomplete line was never acted on.
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
    this.#openings = lines.filter(Boolean).map(each => JSON.parse(each))
  }

  /** The mode of a folder before it was opened, or its current one. */
  modeBefore(path: string, { ino, mode }: fs.Stats): number {
    return (this.#openings.findLast(opening => opening[0] === path && opening[1] === ino)?.[2] ?? mode) & 0o777
  }

  record(opening: Opening): void {
    if (this.#fd === null) {
      this.#fd = fs.openSync(this.#release.at(recordNames.opened), 'a', 0o600)
      fs.ftruncateSync(this.#fd, Buffer.byteLength(this.#openings.map(line).join('')))
    }
    fs.writeFileSync(this.#fd, line(opening))
    fs.fdatasyncSync(this.#fd)
    this.#openings.push(opening)
  }

  /** Restores inner folders first, because outer ones lead to them. Modes that the application has changed itself stay. */
  restoreModes(files: Tree): void {
    if (this.#openings.length === 0) return
    const elsewhere: Opening[] = []
    for (const opening of this.#openings.sort((a, b) => depth(b) - depth(a))) {
      const [path, ino, mode] = opening
      files.forget()
      const stats = files.stat(path)
      if (stats?.ino !== ino) elsewhere.push(opening)
      else if ((stats.mode & 0o7777) === openedMode(mode)) files.setMode(path, mode)
    }
    // A folder that was set aside may come back.
    if (elsewhere.length === 0) this.#release.remove(recordNames.opened)
    else this.#release.write(recordNames.opened, elsewhere.map(line).join(''))
  }

  close(): void {
    if (this.#fd !== null) fs.closeSync(this.#fd)
    this.#fd = null
    this.#release.close()
  }
}

const depth = ([path]: Opening): number => (path === '' ? 0 : path.split('/').length)
const line = (opening: Opening): string => `${JSON.stringify(opening)}\n`
