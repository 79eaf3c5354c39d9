import { constants } from 'node:fs'
import { open, rename, unlink } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { codeOf } from '../../lib/folders/disk-names.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { ApiError } from '../../policy/errors.ts'
import { mountedFolders } from '../../policy/runtimes.ts'
import { type FilesOf, failing, inFolder, missing, namesOf, rootOf } from './files.ts'
import { type AppFolder, give, openFolder } from './folder.ts'
import { holdsSecrets, isEmpty } from './listing.ts'
import { throwAway } from './trash.ts'

const draftFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW

// Each of these is one turn on the application (app-turns.ts).

/**
 * Makes or replaces a file in one step: a reader finds what was there, or all of `bytes`. Missing folders above it are made. Throws
 * INVALID_PATH where a folder has the name or no folder can be, and SAVE_FAILED.
 */
export async function writeFile({ volume }: FilesOf, path: string, bytes: Uint8Array): Promise<void> {
  const names = namesOf(path)
  const name = names.pop()!
  const { folder, owner } = await makeFolders(volume, names).catch(notSaved)
  try {
    const present = await folder.stat(name)
    if (present?.isDirectory()) throw new ApiError('INVALID_PATH', 'There is a directory of this name.')
    const mode = present?.isFile() ? present.mode & 0o777 : 0o644
    await replace(folder, name, { volume, bytes, owner, mode })
  } catch (error) {
    notSaved(error)
  } finally {
    await folder.close()
  }
}

/** Throws FILE_NOT_FOUND, BLOCKED_PATH, and RENAME_FAILED when something has the new name already or cannot be put there. */
export async function moveFile(files: FilesOf, path: string, to: string): Promise<void> {
  const { volume } = files
  const names = namesOf(to)
  const name = names.pop()!
  await inFolder(volume, path, async (from, oldName) => {
    await demandMovable(files, path, from, oldName, 'RENAME_FAILED')
    const { folder: target } = await makeFolders(volume, names).catch(failing('RENAME_FAILED'))
    try {
      if (await target.stat(name)) throw new ApiError('RENAME_FAILED', 'There is something of the new name already.')
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

/** With everything in it. Throws FILE_NOT_FOUND, BLOCKED_PATH and DELETE_FAILED. The space is free after `emptyTrash`. */
export async function removeFile(files: FilesOf, path: string): Promise<void> {
  await inFolder(files.volume, path, async (folder, name) => {
    await demandMovable(files, path, folder, name, 'DELETE_FAILED')
    await throwAway(files.volume, folder, name)
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

/** The new file is written whole beside the application's files, where it sees nothing of it, and put in place then. */
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

/** Opens the folder that names lead to, as the application's user would make it; that user owns the whole and cannot give it away. */
async function makeFolders(volume: string, names: string[]): Promise<{ folder: AppFolder; owner: Owner }> {
  const root = await openFolder(rootOf(volume), [])
  const owner = await root.handle.stat().finally(() => root.close())
  return { folder: await openFolder(rootOf(volume), names, owner), owner }
}

function notSaved(error: unknown): never {
  if (['ENOTDIR', 'ELOOP'].includes(codeOf(error)))
    throw new ApiError('INVALID_PATH', 'A part of the path is no directory.')
  return failing('SAVE_FAILED')(error)
}

/** Throws unless it is there, holds nothing that is hidden from the caller, and is not where dependencies are mounted. */
async function demandMovable(
  { hiding }: FilesOf,
  path: string,
  folder: AppFolder,
  name: string,
  code: 'RENAME_FAILED' | 'DELETE_FAILED',
): Promise<void> {
  const found = await folder.stat(name)
  if (!found) throw new ApiError('FILE_NOT_FOUND')
  if (!found.isDirectory()) return
  const inner = await folder.enter(name)
  try {
    if (mountedFolders.has(path) && (await isEmpty(inner)))
      throw new ApiError(code, 'What a deploy has installed is mounted there.')
    if (hiding !== null && (await holdsSecrets(inner, path, hiding))) throw new ApiError('BLOCKED_PATH')
  } finally {
    await inner.close()
  }
}
