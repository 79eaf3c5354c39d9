/** Names on Linux need not be UTF-8: each character stands for one byte. Text as such a name. */
export const bytesOf = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

/** A name on the disk as text. */
export const textOf = (name: string): string => Buffer.from(name, 'latin1').toString('utf8')

/** The system's code of an error, such as ENOENT; empty when it has none. */
export const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/** Codes of a name that is missing, or whose way leads through something else than folders. */
export const unreachable: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

/** Codes of something that was there a moment ago, and is missing or something else by now. */
export const vanished: ReadonlySet<string> = new Set([...unreachable, 'ENXIO', 'EINVAL'])

/** Codes of a disk or quota that is full. */
export const diskFull: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT'])

/** A file that cannot be opened while its program holds a lease on it (F_SETLEASE), in words; any other error as it is. */
export function toldLeased(error: unknown, path: string): unknown {
  if (codeOf(error) !== 'EAGAIN') return error
  return new Error(`The program holds a lease on ${textOf(path)}, so it cannot be read yet.`)
}
