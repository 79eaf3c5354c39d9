import { nameText } from './disk-names.ts'

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
  return new Error(`The program holds a lease on ${nameText(path)}, so it cannot be read yet.`)
}
