import type { NameFault } from './archive-names.ts'

/**
 * The names an archive has used so far. No two may be the same file, also not after Unicode composition, and no name may be
 * file and folder at once: what would lie on disk then depends on who unpacks. `A.js` beside `a.js` is legal.
 */
export class ArchiveTree {
  /** By composed path: a folder as it was written, null for a file. Thousands of names are held, so nothing more is. */
  readonly #seen = new Map<string, string | null>()

  /** Folders and files so far, folders that only stand in longer names included. */
  get size(): number {
    return this.#seen.size
  }

  /** Takes a name, with all folders above it; a fault when it clashes. A folder may be named again. */
  add(path: string, folder: boolean): NameFault | null {
    const key = path.normalize('NFC')
    const known = this.#seen.get(key)
    if (known !== undefined && (!folder || known !== path))
      return { code: 'INVALID_FILE', message: 'The archive names a file twice, or one name as file and as folder.' }
    if (known !== undefined) return null
    this.#seen.set(key, folder ? path : null)
    const slash = path.lastIndexOf('/')
    return slash < 0 ? null : this.add(path.slice(0, slash), true)
  }
}
