import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { bytesOf, codeOf, diskFull } from '../../lib/folders/disk-names.ts'
import { fileTooLarge, maxFileBytes } from '../../policy/apps/file-content.ts'
import { isSecretFile } from '../../policy/apps/secret-files.ts'
import { ApiError, type ErrorCode } from '../../policy/errors.ts'
import { type AppFolder, openFolder } from './folder.ts'
import { listing } from './listing.ts'

/** Of a pipe this does not wait for a writer, nor of a leased file for its program: that would hold a thread for 45 s. */
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Where an application's files are, and what of them its caller may see. Paths are those of `filePath`. */
export interface FilesOf {
  /** Root of the application's volume; its own files are in `files/`. */
  volume: string
  /** The installation's names of the configuration file, when secrets are kept from the caller; null when all is shown. */
  hiding: readonly string[] | null
}

/** The folder's entries as a JSON list, in pieces. Throws FILE_NOT_FOUND, also for a link to a folder. */
export async function listFiles({ volume, hiding }: FilesOf, path: string): Promise<Readable> {
  const folder = await openFolder(rootOf(volume), namesOf(path)).catch(missing)
  const isHidden = (name: string) => hiding !== null && isSecretFile(path === '' ? name : `${path}/${name}`, hiding)
  const pieces = Readable.from(listing(folder, isHidden))
  // Its owner now: one that was never begun would not come to its own end.
  pieces.once('close', () => void folder.close())
  return pieces
}

/**
 * The bytes that a file has now. Throws FILE_NOT_FOUND for everything but plain files, FILE_TOO_LARGE over 10 MB, and CLUSTER_TIMEOUT
 * for a file on which its program keeps a lease.
 */
export async function readFile({ volume }: FilesOf, path: string): Promise<Readable> {
  const file = await inFolder(volume, path, (folder, name) => openLeased(folder.at(name))).catch(missing)
  const found = await file.stat()
  if (found.isFile() && found.size > 0 && found.size <= maxFileBytes)
    return file.createReadStream({ start: 0, end: found.size - 1 })
  await file.close()
  if (!found.isFile()) throw new ApiError('FILE_NOT_FOUND', 'This is not a file.')
  if (found.size > 0) throw fileTooLarge()
  return Readable.from([])
}

/** A program that is asked for its lease (F_SETLEASE) has so long to give it back; the kernel takes it away 45 s after the first try. */
const leaseMs = 3000

async function openLeased(path: Buffer): Promise<FileHandle> {
  for (const deadline = Date.now() + leaseMs; ; await sleep(50)) {
    try {
      return await open(path, readFlags)
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') throw error
      if (Date.now() > deadline)
        throw new ApiError('CLUSTER_TIMEOUT', 'The program holds a lease on this file. Try again in a minute.')
    }
  }
}

export const rootOf = (volume: string): string => `${volume}/files`

/** Names on the disk that a path is made of. */
export const namesOf = (path: string): string[] => (path === '' ? [] : bytesOf(path).split('/'))

/** Runs `work` in the folder that a path's last name is in. */
export async function inFolder<T>(
  volume: string,
  path: string,
  work: (folder: AppFolder, name: string) => Promise<T>,
): Promise<T> {
  const names = namesOf(path)
  const name = names.pop()!
  const folder = await openFolder(rootOf(volume), names)
  return work(folder, name).finally(() => folder.close())
}

/** How a name fails that is not there, whose way leads through something else than folders, or that is a link or socket. */
const unreachable = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EACCES']

/** Throws FILE_NOT_FOUND for what cannot be reached, and anything else as it is. */
export function missing(error: unknown): never {
  throw unreachable.includes(codeOf(error)) ? new ApiError('FILE_NOT_FOUND') : error
}

/** Throws the code for whatever the system refused; refusals of our own stay. */
export function failing(code: ErrorCode): (error: unknown) => never {
  return error => {
    if (error instanceof ApiError) throw error
    if (diskFull.has(codeOf(error))) throw new ApiError(code, 'The application has no disk space left.')
    throw codeOf(error) === '' ? error : new ApiError(code)
  }
}
