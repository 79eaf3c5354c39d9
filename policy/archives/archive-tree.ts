import type { NameFault } from './archive-names.ts'

/**
 * The names of an archive so far. No two may be the same file, not even after Unicode composition, and no name may be both file and
 * folder: the result on disk would depend on the unpacker. `A.js` alongside `a.js` is legal.
 */
export class ArchiveTree {
  /** By composed path: a folder's name as written, null for a file. Nothing more is stored, because there are thousands of names. */
  readonly #seen = new Map<string, string | null>()

  /** Folders and files so far, including folders that only occur in longer paths. */
  get size(): number {
    return this.#seen.size
  }

  /** Adds a name, with all folders above it; a fault when it clashes. A folder may occur again. */
  add(path: string, folder: boolean): NameFault | null {
    const key = path.normalize('NFC')
    const earlier = this.#seen.get(key)
    if (earlier !== undefined && (!folder || earlier !== path))
      return { code: 'INVALID_FILE', message: 'The archive names a file twice, or one name as file and as folder.' }
    if (earlier !== undefined) return null
    this.#seen.set(key, folder ? path : null)
    const slash = path.lastIndexOf('/')
    return slash < 0 ? null : this.add(path.slice(0, slash), true)
  }
}
