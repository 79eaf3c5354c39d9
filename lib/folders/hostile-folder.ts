import * as fs from 'node:fs'
import { constants } from 'node:fs'

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
const fileFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/**
 * A folder that somebody else may be writing to at the same time. Every step down is one `openat` of one name that refuses
 * links (through `/proc/self/fd`), so no name is ever resolved twice and nothing outside can be reached.
 */
export class HostileFolder {
  readonly #root: number
  /** Open folders from the root down to where the last name was, because archives name neighbours in a row. */
  #trail: { name: string; fd: number }[] = []

  constructor(path: string) {
    this.#root = fs.openSync(path, folderFlags)
  }

  /** The folder itself, for a process that is to write into it; closed with it. */
  get descriptor(): number {
    return this.#root
  }

  get owner(): { uid: number; gid: number } {
    return fs.fstatSync(this.#root)
  }

  get empty(): boolean {
    return fs.readdirSync(at(this.#root)).length === 0
  }

  /** Makes the folder and those above it; there already is success. */
  makeFolder(path: string, mode: number): void {
    // The owner must be able to fill it, and to remove it.
    fs.fchmodSync(this.#descend(path.split('/')), mode | 0o700)
  }

  /** A new file; EEXIST when anything has that name. The caller closes it. */
  createFile(path: string, mode: number): number {
    const fd = fs.openSync(this.#place(path), fileFlags, 0o600)
    fs.fchmodSync(fd, mode | 0o600)
    return fd
  }

  createLink(path: string, target: string): void {
    fs.symlinkSync(target, this.#place(path))
  }

  /** Removes everything inside, following nothing. */
  clear(): void {
    this.#leaveTo(0)
    clearFolder(this.#root)
  }

  close(): void {
    this.#leaveTo(0)
    fs.closeSync(this.#root)
  }

  #place(path: string): string {
    const segments = path.split('/')
    const name = segments.pop()!
    return at(this.#descend(segments), name)
  }

  #descend(segments: string[]): number {
    const shared = this.#trail.findIndex((step, index) => step.name !== segments[index])
    this.#leaveTo(shared < 0 ? Math.min(this.#trail.length, segments.length) : shared)
    for (const name of segments.slice(this.#trail.length)) {
      const path = at(this.#trail.at(-1)?.fd ?? this.#root, name)
      this.#trail.push({ name, fd: openOrMake(path) })
    }
    return this.#trail.at(-1)?.fd ?? this.#root
  }

  #leaveTo(depth: number): void {
    for (const { fd } of this.#trail.splice(depth)) fs.closeSync(fd)
  }
}

function openOrMake(path: string): number {
  try {
    return fs.openSync(path, folderFlags)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    fs.mkdirSync(path, 0o755)
    return fs.openSync(path, folderFlags)
  }
}

function clearFolder(fd: number): void {
  for (const entry of fs.readdirSync(at(fd), { withFileTypes: true })) {
    const path = at(fd, entry.name)
    if (!entry.isDirectory()) {
      fs.unlinkSync(path)
      continue
    }
    const inner = fs.openSync(path, folderFlags)
    try {
      clearFolder(inner)
    } finally {
      fs.closeSync(inner)
    }
    fs.rmdirSync(path)
  }
}

function at(fd: number, name?: string): string {
  return name === undefined ? `/proc/self/fd/${fd}` : `/proc/self/fd/${fd}/${name}`
}
