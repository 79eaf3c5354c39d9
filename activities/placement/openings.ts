import * as fs from 'node:fs'
import { openedMode, type Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import type { Places } from './places.ts'

/** A folder of the application that was closed to its owner: where it lay, its inode, and the mode that is restored. */
type Opening = readonly [path: string, ino: number, mode: number]

/**
 * Does the work on an application's folder with every closed folder in its way opened, and closes those again at the end. An opening
 * is on disk before it happens, so that the next attempt, or the way back, closes the folder after a kill.
 */
export async function withOpenings<T>(
  { files, release }: Places,
  work: (openings: Openings) => Promise<T>,
): Promise<T> {
  const outer = [files.beforeOpening, release.beforeOpening] as const
  const openings = new Openings(release)
  files.beforeOpening = (path, found) => openings.intend([path, found.ino, found.mode & 0o7777])
  release.beforeOpening = () => {} // what lies there is not the application's any more
  try {
    const result = await work(openings)
    openings.closeAgain(files)
    return result
  } finally {
    openings.close()
    files.beforeOpening = outer[0]
    release.beforeOpening = outer[1]
    files.forget()
  }
}

export class Openings {
  readonly #known: Opening[]
  /** Of its own, as names that a tree has given out are valid until its next step only. */
  readonly #release: Tree
  #fd: number | null = null

  constructor(release: Tree) {
    this.#release = release.tree('.')
    const text = this.#release.read(recordNames.opened) ?? ''
    // A line without its end was never acted on.
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
    this.#known = lines.filter(Boolean).map(each => JSON.parse(each))
  }

  /** The mode that a folder had before it was opened, or has. */
  modeBefore(path: string, { ino, mode }: fs.Stats): number {
    return (this.#known.findLast(known => known[0] === path && known[1] === ino)?.[2] ?? mode) & 0o777
  }

  intend(opening: Opening): void {
    if (this.#fd === null) {
      this.#fd = fs.openSync(this.#release.at(recordNames.opened), 'a', 0o600)
      fs.ftruncateSync(this.#fd, Buffer.byteLength(this.#known.map(line).join('')))
    }
    fs.writeFileSync(this.#fd, line(opening))
    fs.fdatasyncSync(this.#fd)
    this.#known.push(opening)
  }

  /** Closes inner folders first, as outer ones lead to them. What the application has closed or opened itself stays so. */
  closeAgain(files: Tree): void {
    if (this.#known.length === 0) return
    const elsewhere: Opening[] = []
    for (const opening of this.#known.sort((a, b) => depth(b) - depth(a))) {
      const [path, ino, mode] = opening
      files.forget()
      const found = files.stat(path)
      if (found?.ino !== ino) elsewhere.push(opening)
      else if ((found.mode & 0o7777) === openedMode(mode)) files.setMode(path, mode)
    }
    // What was set aside may come back.
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
