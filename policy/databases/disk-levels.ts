import { databaseWarnings } from './database-warnings.ts'

/** Shares of a database's disk, from 0 to 1, at which its owner is warned, writes end, and writes are admitted again. */
export const diskWarnings = { mail: [0.85, 0.95], readOnly: 0.98, writableAgain: 0.95 } as const

/**
 * How many levels of `diskWarnings.mail` a use of the disk has reached: 0 means no warning. A level that its owner is warned of
 * lasts until the use is well below it, so that a use near it is one warning.
 */
export function diskWarningLevel(usedBytes: number, totalBytes: number, warned = 0): number {
  if (totalBytes <= 0) return 0
  const isReached = (share: number, index: number) =>
    usedBytes >= (share - (index < warned ? databaseWarnings.diskEndsPointsBelow : 0)) * totalBytes
  return diskWarnings.mail.filter(isReached).length
}
