import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { constants } from 'node:fs'
import { KiB } from '../bytes.ts'
import { untrustedFileFlags, untrustedFolderFlags } from './disk-names.ts'
import { codeOf, leaseRefused, unreachable } from './error-codes.ts'

/** O_PATH, which needs no read permission. */
const pathOnly = 0o10000000
const newFileFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

const buffer = Buffer.allocUnsafe(256 * KiB)
/** Permissions of the owner that are needed to read a folder, and to change it. */
const [toRead, toChange] = [0o500, 0o700]

/**
 * A folder that its application may change meanwhile. Every step down opens one name and refuses links, so nothing outside is
 * reached. Paths are relative, with `/` between names; each character is one byte, because names on Linux need not be
 * UTF-8 (`nameBytes`, `nameText`).
 */
export class Tree {
  readonly #root: number
  /** Open folders from the root down to the last used one, because work proceeds from neighbour to neighbour. */
  #trail: { name: string; fd: number }[] = []
  readonly #readOnly: boolean

  /**
   * If set, folders that their owner cannot access are made accessible before a name in them is read or changed. Called before that
   * with the folder's path and its stats.
   */
  beforeOpening: ((path: string, stats: fs.Stats) => void) | null = null

  /** With `readOnly`, modes of folders are never changed; root can enter them anyway. */
  constructor(path: string | Buffer, { readOnly = false } = {}) {
    this.#readOnly = readOnly
    this.#root = this.#open(path, '')
  }

  get root(): fs.Stats {
    return fs.fstatSync(this.#root)
  }

  /** The descriptor of the folder, for a process that writes into it; closed with the tree. */
  get descriptor(): number {
    return this.#root
  }

  /** The path for system calls, valid until the next step. Throws ENOENT, ENOTDIR or ELOOP when a folder above it cannot be entered. */
  at(path: string): Buffer {
    return this.#place(path, toChange)
  }

  /** Null when the path or a folder above it is missing. Links are not followed. */
  stat(path: string): fs.Stats | null {
    try {
      return fs.lstatSync(this.#place(path, toRead))
    } catch (error) {
      if (unreachable.has(codeOf(error))) return null
      throw error
    }
  }

  list(path = ''): string[] {
    const folder = this.#folder(path)
    this.#allow(folder, path, toRead)
    return fs.readdirSync(system(folder), 'latin1')
  }

  tree(path: string): Tree {
    return new Tree(this.at(path))
  }

  /** Must be called when a folder of this tree was moved or removed: an open one would be found under its old name. */
  forget(): void {
    this.#leaveTo(0)
  }

  /** Makes a folder writable for its owner. */
  unlock(folder = ''): void {
    const fd = this.#folder(folder)
    const stats = fs.fstatSync(fd)
    // The engine's mount points are writable already, and their owner cannot change them.
    if ((stats.mode & toChange) === toChange) return
    this.beforeOpening?.(folder, stats)
    fs.fchmodSync(fd, openedMode(stats.mode))
  }

  /** Sets a folder's mode, through its descriptor. */
  setMode(folder: string, mode: number): void {
    fs.fchmodSync(this.#folder(folder), mode)
  }

  /** Removes it with everything inside; missing is success. */
  remove(path: string): void {
    const stats = this.stat(path)
    if (!stats) return
    if (!stats.isDirectory()) {
      fs.unlinkSync(this.at(path))
      return
    }
    const inner = this.tree(path)
    inner.unlock()
    for (const name of inner.list()) inner.remove(name)
    inner.close()
    this.forget()
    fs.rmdirSync(this.at(path))
  }

  /** Removes everything inside. */
  clear(): void {
    this.forget()
    for (const name of this.list()) this.remove(name)
  }

  /** Creates a folder and those above it; existing already is success. Its owner can fill and remove it, whatever the mode. */
  makeFolder(path: string, mode: number): void {
    fs.fchmodSync(this.#enter(path.split('/'), true), mode | 0o700)
  }

  /** Creates a file and missing folders above it; EEXIST when the name is taken. The caller closes it. */
  createFile(path: string, mode: number): number {
    const fd = fs.openSync(this.#place(path, toChange, true), newFileFlags, 0o600)
    fs.fchmodSync(fd, mode | 0o600)
    return fd
  }

  /** Like `createFile`, for a link. */
  createLink(path: string, target: string | Buffer): void {
    fs.symlinkSync(target, this.#place(path, toChange, true))
  }

  /** SHA-256 in hex of a file's content, or of a link's target. */
  hash(path: string, link: boolean): string {
    const hash = createHash('sha256')
    if (link) return hash.update(fs.readlinkSync(this.#place(path, toRead), 'buffer')).digest('hex')
    const fd = this.#openFile(path)
    try {
      for (let read = 1; read > 0; ) {
        read = fs.readSync(fd, buffer)
        hash.update(buffer.subarray(0, read))
      }
      return hash.digest('hex')
    } finally {
      fs.closeSync(fd)
    }
  }

  #openFile(path: string): number {
    try {
      return fs.openSync(this.#place(path, toRead), untrustedFileFlags)
    } catch (error) {
      throw leaseRefused(error, path)
    }
  }

  read(path: string): string | null {
    if (!this.stat(path)) return null
    const fd = this.#openFile(path)
    try {
      return fs.readFileSync(fd, 'utf8')
    } finally {
      fs.closeSync(fd)
    }
  }

  /** Writes a file atomically, also across a power cut. */
  write(path: string, text: string): void {
    const draft = this.at(`${path}.new`)
    const fd = fs.openSync(draft, 'w', 0o600)
    fs.writeFileSync(fd, text)
    fs.fsyncSync(fd)
    fs.closeSync(fd)
    fs.renameSync(draft, this.at(path))
  }

  close(): void {
    this.forget()
    fs.closeSync(this.#root)
  }

  #place(path: string, rights: number, create = false): Buffer {
    const names = path.split('/')
    const name = names.pop()!
    const folder = this.#enter(names, create)
    this.#allow(folder, names.join('/'), rights)
    return system(folder, name)
  }

  #allow(fd: number, folder: string, rights: number): void {
    if (this.beforeOpening && (fs.fstatSync(fd).mode & rights) !== rights) this.unlock(folder)
  }

  #folder(path: string): number {
    return path === '' ? this.#root : this.#enter(path.split('/'))
  }

  #enter(names: string[], create = false): number {
    const differs = this.#trail.findIndex((step, index) => step.name !== names[index])
    this.#leaveTo(differs < 0 ? Math.min(this.#trail.length, names.length) : differs)
    for (const [index, name] of names.entries()) {
      if (index < this.#trail.length) continue
      const above = this.#trail.at(-1)?.fd ?? this.#root
      this.#allow(above, names.slice(0, index).join('/'), toRead)
      const path = names.slice(0, index + 1).join('/')
      this.#trail.push({ name, fd: this.#open(system(above, name), path, create) })
    }
    return this.#trail.at(-1)?.fd ?? this.#root
  }

  #leaveTo(depth: number): void {
    for (const { fd } of this.#trail.splice(depth)) fs.closeSync(fd)
  }

  /** Makes a folder accessible that even its owner cannot enter, as in package caches. */
  #open(path: string | Buffer, folder: string, create = false): number {
    try {
      return fs.openSync(path, untrustedFolderFlags)
    } catch (error) {
      if (create && codeOf(error) === 'ENOENT') {
        fs.mkdirSync(path, 0o755)
        return this.#open(path, folder)
      }
      if (this.#readOnly || codeOf(error) !== 'EACCES') throw error
      const fd = fs.openSync(path, untrustedFolderFlags | pathOnly)
      try {
        const stats = fs.fstatSync(fd)
        this.beforeOpening?.(folder, stats)
        // Through the descriptor, because its name may mean something else now.
        fs.chmodSync(system(fd), openedMode(stats.mode))
        return fs.openSync(system(fd, '.'), untrustedFolderFlags)
      } finally {
        fs.closeSync(fd)
      }
    }
  }
}

/** A folder's mode once its owner can change its content. */
export const openedMode = (mode: number): number => (mode & 0o7777) | toChange

function system(fd: number, name?: string): Buffer {
  return Buffer.from(name === undefined ? `/proc/self/fd/${fd}` : `/proc/self/fd/${fd}/${name}`, 'latin1')
}
