import { constants, type Dir, type Stats } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, opendir } from 'node:fs/promises'
import { codeOf } from '../../lib/folders/disk-names.ts'
import type { Owner } from '../../lib/folders/owner.ts'

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * An open folder that its application may be changing at the same time. Every step down is one open of one name that refuses
 * links, so nothing outside is reached whatever links are laid meanwhile. For names on the disk, which need not be UTF-8, each
 * character stands for one byte (`bytesOf`, `textOf`).
 */
export class AppFolder {
  readonly handle: FileHandle

  private constructor(handle: FileHandle) {
    this.handle = handle
  }

  static async open(path: string | Buffer): Promise<AppFolder> {
    return new AppFolder(await open(path, folderFlags))
  }

  /** The name in this folder as system calls take it. */
  at(name: string): Buffer {
    return Buffer.from(`/proc/self/fd/${this.handle.fd}/${name}`, 'latin1')
  }

  enter(name: string): Promise<AppFolder> {
    return AppFolder.open(this.at(name))
  }

  /** Enters a folder that may have to be made; a new one is `owner`'s, for all to read. */
  async enterOrMake(name: string, owner: Owner): Promise<AppFolder> {
    const made = await mkdir(this.at(name)).then(
      () => true,
      error => ignore(error, 'EEXIST'),
    )
    const folder = await this.enter(name)
    if (made) await give(folder.handle, owner, 0o755)
    return folder
  }

  /** Null when there is nothing of this name. Links are not followed. */
  async stat(name: string): Promise<Stats | null> {
    return lstat(this.at(name)).catch(error => ignore(error, 'ENOENT') || null)
  }

  /** What is in it, in no order; `name` is in bytes. */
  entries(): Promise<Dir> {
    return opendir(this.at(''), { encoding: 'latin1', bufferSize: 256 })
  }

  close(): Promise<void> {
    return this.handle.close()
  }
}

/** Opens the folder that names lead to, one after the other. With `owner`, missing ones are made. The caller closes it. */
export async function openFolder(root: string, names: readonly string[], owner?: Owner): Promise<AppFolder> {
  let here = await AppFolder.open(root)
  for (const name of names) {
    const above = here
    here = await (owner ? above.enterOrMake(name, owner) : above.enter(name)).finally(() => above.close())
  }
  return here
}

/** Makes an open file or folder the application's own; only root may give things away. */
export async function give(handle: FileHandle, { uid, gid }: Owner, mode: number): Promise<void> {
  if (process.getuid?.() === 0) await handle.chown(uid, gid)
  await handle.chmod(mode)
}

/** False for errors of these codes; others are thrown on. */
export function ignore(error: unknown, ...codes: string[]): false {
  if (codes.includes(codeOf(error))) return false
  throw error
}
