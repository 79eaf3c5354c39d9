import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { nameBytes, untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { codeOf, diskFull } from '../../lib/folders/error-codes.ts'
import { fileTooLarge, maxFileBytes } from '../../policy/apps/file-content.ts'
import { isSecretFile } from '../../policy/apps/secret-files.ts'
import { CodedError, type ErrorCode } from '../../policy/errors.ts'
import { type AppFolder, openFolder } from './folder.ts'
import { listing } from './listing.ts'

/** The location of an application's files, and which of them the caller may see. Paths are those of `filePath`. */
export interface FilesOf {
  /** Root of the application's volume; its own files are in `files/`. */
  volume: string
  /** The installation's names of the configuration file when secrets are hidden from the caller; null when all is visible. */
  hiding: readonly string[] | null
}

/** The folder's entries as a JSON list, in pieces. Throws FILE_NOT_FOUND, also for a link to a folder. */
export async function listFiles({ volume, hiding }: FilesOf, path: string): Promise<Readable> {
  const folder = await openFolder(rootOf(volume), namesOf(path)).catch(missing)
  const isHidden = (name: string) => hiding !== null && isSecretFile(path === '' ? name : `${path}/${name}`, hiding)
  const pieces = Readable.from(listing(folder, isHidden))
  // The stream closes the folder: a generator that was never started does not run its `finally`.
  pieces.once('close', () => void folder.close())
  return pieces
}

/**
 * The current bytes of a file. Throws FILE_NOT_FOUND for everything but plain files, FILE_TOO_LARGE over 10 MB, and CLUSTER_TIMEOUT
 * for a file on which its program holds a lease.
 */
export async function readFile({ volume }: FilesOf, path: string): Promise<Readable> {
  const file = await inFolder(volume, path, (folder, name) => openLeased(folder.at(name))).catch(missing)
  const stats = await file.stat()
  if (stats.isFile() && stats.size > 0 && stats.size <= maxFileBytes)
    return file.createReadStream({ start: 0, end: stats.size - 1 })
  await file.close()
  if (!stats.isFile()) throw new CodedError('FILE_NOT_FOUND', 'This is not a file.')
  if (stats.size > 0) throw fileTooLarge()
  return Readable.from([])
}

/** Time for a program to release its lease (F_SETLEASE); the kernel breaks the lease 45 s after the first attempt. */
const leaseMs = 3000

async function openLeased(path: Buffer): Promise<FileHandle> {
  for (const deadline = Date.now() + leaseMs; ; await sleep(50)) {
    try {
      return await open(path, untrustedFileFlags)
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') throw error
      if (Date.now() > deadline)
        throw new CodedError('CLUSTER_TIMEOUT', 'The program holds a lease on this file. Try again in a minute.')
    }
  }
}

export const rootOf = (volume: string): string => `${volume}/files`

/** The names of a path, as on the disk. */
export const namesOf = (path: string): string[] => (path === '' ? [] : nameBytes(path).split('/'))

/** Runs `work` in the folder that contains a path's last name. */
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

/** Codes for a path that is missing, leads through something that is not a folder, or is a link or socket. */
const unreachable = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EACCES']

/** Throws FILE_NOT_FOUND for a path that cannot be reached, and rethrows anything else. */
export function missing(error: unknown): never {
  throw unreachable.includes(codeOf(error)) ? new CodedError('FILE_NOT_FOUND') : error
}

/** Maps system errors to the code; rethrows our own refusals. */
export function failing(code: ErrorCode): (error: unknown) => never {
  return error => {
    if (error instanceof CodedError) throw error
    if (diskFull.has(codeOf(error))) throw new CodedError(code, 'The application has no disk space left.')
    throw codeOf(error) === '' ? error : new CodedError(code)
  }
}
