import { MiB } from '../../lib/bytes.ts'
import { nameFault, shownName, staysInside } from './archive-names.ts'
import { isDropped, uploadRules } from './archive-rules.ts'
import { ArchiveTree } from './archive-tree.ts'

/** One line of a commit's tree; `bytes` is the size of the file, or of a link's target. */
export interface TreeEntry {
  mode: string
  id: string
  bytes: number
  path: string
}

export interface TreeFault {
  code: 'CLONE_FAILED' | 'REPOSITORY_TOO_LARGE'
  message: string
}

const maxTargetBytes = 4096
/** A tree may refer to the same folder any number of times, so that a small commit has an endless list. */
const maxListed = 10 * uploadRules.entries
const maxSubmodules = 10

/**
 * The files of a commit that are deployed: selected as in an uploaded archive, with the same cap of entries. Submodules are left out,
 * and so are links that could lead outside; these and dropped files count only against a cap of everything listed.
 */
export class GitTree {
  readonly files: TreeEntry[] = []
  readonly links: TreeEntry[] = []
  /** The first ones, for the log. */
  readonly submodules: string[] = []
  bytes = 0
  #listed = 0
  readonly #tree = new ArchiveTree()

  constructor(private readonly maxBytes: number) {}

  get entries(): TreeEntry[] {
    return [...this.files, ...this.links]
  }

  /** Adds the next entry; a fault ends the whole fetch. */
  add(entry: TreeEntry): TreeFault | null {
    const { mode, path, bytes } = entry
    if (++this.#listed > maxListed)
      return {
        code: 'REPOSITORY_TOO_LARGE',
        message: `The commit contains over ${maxListed} files, those that are left out included.`,
      }
    if (isDropped(path)) return null
    if (mode === '160000') {
      if (this.submodules.length < maxSubmodules) this.submodules.push(path)
      return null
    }
    const fault = nameFault(path) ?? this.#tree.add(path, false)
    if (fault || path.split('/').some(part => part === '..' || part === '.' || part === ''))
      return {
        code: 'CLONE_FAILED',
        message: `The commit contains a name that cannot be a file here: ${shownName(path)}`,
      }
    if (this.#tree.size > uploadRules.entries)
      return {
        code: 'REPOSITORY_TOO_LARGE',
        message: `The commit contains over ${uploadRules.entries} files and folders.`,
      }
    this.bytes += bytes
    if (this.bytes > this.maxBytes)
      return { code: 'REPOSITORY_TOO_LARGE', message: `The commit's files take over ${inMb(this.maxBytes)}.` }
    if (mode === '120000') this.links.push(entry)
    else this.files.push(entry)
    return null
  }

  /** Removes links that lead outside; `targets` are in the order of `links`. Returns the paths of the removed links. */
  dropLinksOutside(targets: readonly string[]): string[] {
    const inside = this.links.filter(({ path, bytes }, index) => {
      const target = targets[index] ?? ''
      return bytes > 0 && bytes <= maxTargetBytes && !target.includes('\0') && staysInside(path, target)
    })
    const outside = this.links.filter(link => !inside.includes(link)).map(link => link.path)
    this.links.splice(0, this.links.length, ...inside)
    return outside
  }
}

export function inMb(bytes: number): string {
  return `${Math.round(bytes / MiB)} MB`
}
