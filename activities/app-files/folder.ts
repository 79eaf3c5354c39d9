import type { Dir, Stats } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, opendir } from 'node:fs/promises'
import { untrustedFolderFlags } from '../../lib/folders/disk-names.ts'
import { codeOf } from '../../lib/folders/error-codes.ts'
import type { Owner } from '../../lib/folders/owner.ts'

/**
 * An open folder that its application may change meanwhile. Every step down opens one name and refuses links, so nothing outside is
 * reached, whatever links are created meanwhile. Names on the disk need not be UTF-8, so each of their characters is one byte
 * (`nameBytes`, `nameText`).
 */
export class AppFolder {
  readonly handle: FileHandle

  private constructor(handle: FileHandle) {
    this.handle = handle
  }

  static async open(path: string | Buffer): Promise<AppFolder> {
    return new AppFolder(await open(path, untrustedFolderFlags))
  }

  /** Path of a name in this folder for system calls. */
  at(name: string): Buffer {
    return Buffer.from(`/proc/self/fd/${this.handle.fd}/${name}`, 'latin1')
  }

  enter(name: string): Promise<AppFolder> {
    return AppFolder.open(this.at(name))
  }

  /** Enters a folder, creating it when it is missing; a new one belongs to `owner` and is world-readable. */
  async enterOrCreate(name: string, owner: Owner): Promise<AppFolder> {
    const isNew = await mkdir(this.at(name)).then(
      () => true,
      error => ignore(error, 'EEXIST'),
    )
    const folder = await this.enter(name)
    if (isNew) await give(folder.handle, owner, 0o755)
    return folder
  }

  /** Null when there is nothing of this name. Links are not followed. */
  async stat(name: string): Promise<Stats | null> {
    return lstat(this.at(name)).catch(error => ignore(error, 'ENOENT') || null)
  }

  /** The entries, unordered; `name` is in bytes. */
  entries(): Promise<Dir> {
    return opendir(this.at(''), { encoding: 'latin1', bufferSize: 256 })
  }

  close(): Promise<void> {
    return this.handle.close()
  }
}

/** Opens the folder at these names. With `owner`, missing ones are created. The caller closes it. */
export async function openFolder(root: string, names: readonly string[], owner?: Owner): Promise<AppFolder> {
  let folder = await AppFolder.open(root)
  for (const name of names) {
    const parent = folder
    folder = await (owner ? parent.enterOrCreate(name, owner) : parent.enter(name)).finally(() => parent.close())
  }
  return folder
}

/** Sets owner and mode of an open file or folder; only root may change the owner. */
export async function give(handle: FileHandle, { uid, gid }: Owner, mode: number): Promise<void> {
  if (process.getuid?.() === 0) await handle.chown(uid, gid)
  await handle.chmod(mode)
}

/** False for errors of these codes; rethrows others. */
export function ignore(error: unknown, ...codes: string[]): false {
  if (codes.includes(codeOf(error))) return false
  throw error
}
