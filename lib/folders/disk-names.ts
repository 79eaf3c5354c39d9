import { constants } from 'node:fs'

/** A text as a name on the disk. Names on Linux need not be UTF-8, so each of their characters is one byte. */
export const nameBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

/** A name on the disk as text. */
export const nameText = (name: string): string => Buffer.from(name, 'latin1').toString('utf8')

/** How a folder is opened that an application may have replaced by anything: a link is refused. */
export const untrustedFolderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * How a file is opened that an application may have replaced by anything: no link is followed, and neither a pipe without a writer nor a
 * lease of its program blocks the thread. The opened file may still be no plain one.
 */
export const untrustedFileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
