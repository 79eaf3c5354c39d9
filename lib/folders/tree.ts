import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { constants } from 'node:fs'
import { KiB } from '../bytes.ts'
import { codeOf, toldLeased, unreachable } from './disk-names.ts'

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** O_PATH, which needs no right to read. */
const pathOnly = 0o10000000
const fileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const newFileFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

const buffer = Buffer.allocUnsafe(256 * KiB)
/** What its owner must be able to do with a folder for a name in it to be looked at, and to be changed. */
const [toLook, toChange] = [0o500, 0o700]

/**
 * A folder that its application may be changing at the same time. Every step down is one open of one name that refuses links,
 * so nothing outside is reached. Paths are relative, `/` between names; each character stands for one byte, because names on
 * Linux need not be UTF-8 (`bytesOf`, `textOf`).
 */
export class Tree {
  readonly #root: number
  /** Open folders from the root down to where the last name was, because work goes from neighbour to neighbour. */
  #trail: { name: string; fd: number }[] = []
  readonly #readOnly: boolean

  /**
   * Where it is set, every folder that its owner has closed is opened before a name in it is looked at or changed, and this is called
   * before that with the folder's path and what it was.
   */
  beforeOpening: ((path: string, found: fs.Stats) => void) | null = null

  /** Read-only, it opens no folder that its owner has closed; root enters those anyway. */
  constructor(path: string | Buffer, { readOnly = false } = {}) {
    this.#readOnly = readOnly
    this.#root = this.#open(path, '')
  }

  get root(): fs.Stats {
    return fs.fstatSync(this.#root)
  }

  /** The folder itself, for a process that is to write into it; closed with it. */
  get descriptor(): number {
    return this.#root
  }

  /** The name as system calls take it. Throws ENOENT, ENOTDIR or ELOOP when a folder above it cannot be entered. */
  at(path: string): Buffer {
    return this.#place(path, toChange)
  }

  /** Null when there is nothing, or a folder above it is missing. Links are not followed. */
  stat(path: string): fs.Stats | null {
    try {
      return fs.lstatSync(this.#place(path, toLook))
    } catch (error) {
      if (unreachable.has(codeOf(error))) return null
      throw error
    }
  }

  list(path = ''): string[] {
    const folder = this.#folder(path)
    this.#allow(folder, path, toLook)
    return fs.readdirSync(system(folder), 'latin1')
  }

  tree(path: string): Tree {
    return new Tree(this.at(path))
  }

  /** Has to be called when a folder of this tree was moved or removed: an open one would be found under its old name. */
  forget(): void {
    this.#leaveTo(0)
  }

  /** Lets the folder's owner change what is in it. */
  unlock(folder = ''): void {
    const fd = this.#folder(folder)
    const found = fs.fstatSync(fd)
    // The engine's own folders, where it mounts something, are open already and not the owner's to change.
    if ((found.mode & toChange) === toChange) return
    this.beforeOpening?.(folder, found)
    fs.fchmodSync(fd, openedMode(found.mode))
  }

  /** Gives a folder a mode, through its descriptor. */
  setMode(folder: string, mode: number): void {
    fs.fchmodSync(this.#folder(folder), mode)
  }

  /** Removes it with everything inside; missing is success. */
  remove(path: string): void {
    const found = this.stat(path)
    if (!found) return
    if (!found.isDirectory()) {
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

  /** Makes the folder and those above it; there already is success. Its owner can fill and remove it, whatever the mode. */
  makeFolder(path: string, mode: number): void {
    fs.fchmodSync(this.#enter(path.split('/'), true), mode | 0o700)
  }

  /** A new file, in folders that are made where they are missing; EEXIST when anything has that name. The caller closes it. */
  createFile(path: string, mode: number): number {
    const fd = fs.openSync(this.#place(path, toChange, true), newFileFlags, 0o600)
    fs.fchmodSync(fd, mode | 0o600)
    return fd
  }

  /** As `createFile`, a link. */
  createLink(path: string, target: string | Buffer): void {
    fs.symlinkSync(target, this.#place(path, toChange, true))
  }

  /** SHA-256 in hex of a file's content, or of where a link leads. */
  hash(path: string, link: boolean): string {
    const hash = createHash('sha256')
    if (link) return hash.update(fs.readlinkSync(this.#place(path, toLook), 'buffer')).digest('hex')
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
      return fs.openSync(this.#place(path, toLook), fileFlags)
    } catch (error) {
      throw toldLeased(error, path)
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

  /** A file is there whole or not at all, also after a power cut. */
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

  #place(path: string, rights: number, isMaking = false): Buffer {
    const names = path.split('/')
    const name = names.pop()!
    const folder = this.#enter(names, isMaking)
    this.#allow(folder, names.join('/'), rights)
    return system(folder, name)
  }

  #allow(fd: number, folder: string, rights: number): void {
    if (this.beforeOpening && (fs.fstatSync(fd).mode & rights) !== rights) this.unlock(folder)
  }

  #folder(path: string): number {
    return path === '' ? this.#root : this.#enter(path.split('/'))
  }

  #enter(names: string[], isMaking = false): number {
    const differs = this.#trail.findIndex((step, index) => step.name !== names[index])
    this.#leaveTo(differs < 0 ? Math.min(this.#trail.length, names.length) : differs)
    for (const [index, name] of names.entries()) {
      if (index < this.#trail.length) continue
      const above = this.#trail.at(-1)?.fd ?? this.#root
      this.#allow(above, names.slice(0, index).join('/'), toLook)
      const path = names.slice(0, index + 1).join('/')
      this.#trail.push({ name, fd: this.#open(system(above, name), path, isMaking) })
    }
    return this.#trail.at(-1)?.fd ?? this.#root
  }

  #leaveTo(depth: number): void {
    for (const { fd } of this.#trail.splice(depth)) fs.closeSync(fd)
  }

  /** A folder that its owner closed even to itself, as package caches do, is opened first. */
  #open(path: string | Buffer, folder: string, isMaking = false): number {
    try {
      return fs.openSync(path, folderFlags)
    } catch (error) {
      if (isMaking && codeOf(error) === 'ENOENT') {
        fs.mkdirSync(path, 0o755)
        return this.#open(path, folder)
      }
      if (this.#readOnly || codeOf(error) !== 'EACCES') throw error
      const found = fs.openSync(path, folderFlags | pathOnly)
      try {
        const stats = fs.fstatSync(found)
        this.beforeOpening?.(folder, stats)
        // What was opened, and not what has its name by now.
        fs.chmodSync(system(found), openedMode(stats.mode))
        return fs.openSync(system(found, '.'), folderFlags)
      } finally {
        fs.closeSync(found)
      }
    }
  }
}

/** The mode of a folder that had the given one, once its owner can change what is in it. */
export const openedMode = (mode: number): number => (mode & 0o7777) | toChange

function system(fd: number, name?: string): Buffer {
  return Buffer.from(name === undefined ? `/proc/self/fd/${fd}` : `/proc/self/fd/${fd}/${name}`, 'latin1')
}
