import { constants } from 'node:fs'

/** A text as a name on the disk. Names on Linux need not be UTF-8, so each of their characters is one byte. */
export const bytesOf = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

/** A name on the disk as text. */
export const textOf = (name: string): string => Buffer.from(name, 'latin1').toString('utf8')

/** The system's code of an error, such as ENOENT; empty when it has none. */
export const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/** For `catch`: null for a path that is missing; throws any other error. */
export function unlessMissing(error: unknown): null {
  if (codeOf(error) === 'ENOENT') return null
  throw error
}

/** Codes of a path that is missing, or leads through something that is not a folder. */
export const unreachable: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

/** Codes of a path that existed a moment ago, and is missing or something else now. */
export const vanished: ReadonlySet<string> = new Set([...unreachable, 'ENXIO', 'EINVAL'])

/** Codes of a disk that has failed: what it had cannot be read, or not be changed. */
export const diskFailed: ReadonlySet<string> = new Set(['EIO', 'EUCLEAN', 'EROFS'])

/** Codes of a full disk or quota. */
export const diskFull: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT'])

/** Explains a file that cannot be opened while its program holds a lease on it (F_SETLEASE); returns any other error unchanged. */
export function leaseRefused(error: unknown, path: string): unknown {
  if (codeOf(error) !== 'EAGAIN') return error
  return new Error(`The program holds a lease on ${textOf(path)}, so it cannot be read yet.`)
}

/** How a folder is opened that an application may have replaced by anything: a link is refused. */
export const untrustedFolderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * How a file is opened that an application may have replaced by anything: no link is followed, and neither a pipe without a writer nor a
 * lease of its program blocks the thread. The opened file may still be no plain one.
 */
export const untrustedFileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
