import { constants } from 'node:fs'
import { open, rename, unlink } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { codeOf } from '../../lib/folders/error-codes.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { CodedError } from '../../policy/errors.ts'
import { mountedFolders } from '../../policy/runtimes.ts'
import { type FilesOf, failing, inFolder, missing, namesOf, rootOf } from './files.ts'
import { type AppFolder, give, openFolder } from './folder.ts'
import { holdsSecrets, isEmpty } from './listing.ts'
import { moveToTrash } from './trash.ts'

const draftFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW

// The caller holds the application's lock during each of these (app-locks.ts).

/**
 * Creates or replaces a file in one step: a reader finds either the old content or all of `bytes`. Creates missing folders above it.
 * Throws INVALID_PATH where a folder has the name or a part of the path is no folder, and SAVE_FAILED.
 */
export async function writeFile({ volume }: FilesOf, path: string, bytes: Uint8Array): Promise<void> {
  const names = namesOf(path)
  const name = names.pop()!
  const { folder, owner } = await makeFolders(volume, names).catch(notSaved)
  try {
    const present = await folder.stat(name)
    if (present?.isDirectory()) throw new CodedError('INVALID_PATH', 'There is a directory of this name.')
    const mode = present?.isFile() ? present.mode & 0o777 : 0o644
    await replace(folder, name, { volume, bytes, owner, mode })
  } catch (error) {
    notSaved(error)
  } finally {
    await folder.close()
  }
}

/** Throws FILE_NOT_FOUND, BLOCKED_PATH, and RENAME_FAILED when the new name is taken or the file cannot be moved there. */
export async function moveFile(files: FilesOf, path: string, to: string): Promise<void> {
  const { volume } = files
  const names = namesOf(to)
  const name = names.pop()!
  await inFolder(volume, path, async (from, oldName) => {
    await demandMovable(files, path, from, oldName, 'RENAME_FAILED')
    const { folder: target } = await makeFolders(volume, names).catch(failing('RENAME_FAILED'))
    try {
      if (await target.stat(name)) throw new CodedError('RENAME_FAILED', 'The new name already exists.')
      await rename(from.at(oldName), target.at(name))
      await target.handle.sync()
      await from.handle.sync()
    } catch (error) {
      failing('RENAME_FAILED')(error)
    } finally {
      await target.close()
    }
  }).catch(missing)
}

/** Removes a file, or a folder with its content. Throws FILE_NOT_FOUND, BLOCKED_PATH and DELETE_FAILED. `emptyTrash` frees the space. */
export async function removeFile(files: FilesOf, path: string): Promise<void> {
  await inFolder(files.volume, path, async (folder, name) => {
    await demandMovable(files, path, folder, name, 'DELETE_FAILED')
    await moveToTrash(files.volume, folder, name)
      .then(() => folder.handle.sync())
      .catch(failing('DELETE_FAILED'))
  }).catch(missing)
}

interface Draft {
  volume: string
  bytes: Uint8Array
  owner: Owner
  mode: number
}

/** Writes the new file outside of the application's folder, where its program cannot see it, and renames it into place. */
async function replace(folder: AppFolder, name: string, { volume, bytes, owner, mode }: Draft): Promise<void> {
  const draft = `${volume}/draft`
  const file = await open(draft, draftFlags, 0o600)
  try {
    await file.writeFile(bytes)
    await give(file, owner, mode)
    await file.sync()
    await rename(draft, folder.at(name))
    await folder.handle.sync()
  } catch (error) {
    await unlink(draft).catch(ignoreError('the error that led here is thrown'))
    throw error
  } finally {
    await file.close()
  }
}

/** Opens the folder at these names, creating missing ones as the application's user, who owns all of its files. */
async function makeFolders(volume: string, names: string[]): Promise<{ folder: AppFolder; owner: Owner }> {
  const root = await openFolder(rootOf(volume), [])
  const owner = await root.handle.stat().finally(() => root.close())
  return { folder: await openFolder(rootOf(volume), names, owner), owner }
}

function notSaved(error: unknown): never {
  if (['ENOTDIR', 'ELOOP'].includes(codeOf(error)))
    throw new CodedError('INVALID_PATH', 'A part of the path is not a directory.')
  return failing('SAVE_FAILED')(error)
}

/** Throws unless the file exists, contains nothing that is hidden from the caller, and is not a mount point of dependencies. */
async function demandMovable(
  { hiding }: FilesOf,
  path: string,
  folder: AppFolder,
  name: string,
  code: 'RENAME_FAILED' | 'DELETE_FAILED',
): Promise<void> {
  const stats = await folder.stat(name)
  if (!stats) throw new CodedError('FILE_NOT_FOUND')
  if (!stats.isDirectory()) return
  const inner = await folder.enter(name)
  try {
    if (mountedFolders.has(path) && (await isEmpty(inner)))
      throw new CodedError(code, 'The dependencies of a deploy are mounted there.')
    if (hiding !== null && (await holdsSecrets(inner, path, hiding))) throw new CodedError('BLOCKED_PATH')
  } finally {
    await inner.close()
  }
}
