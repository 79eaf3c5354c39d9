import { MiB } from '../../lib/bytes.ts'

/**
 * Limits of a child process that places files: seconds, and resident bytes. For the file names in its event, up to `searched` entries of
 * a first release are read, `levels` folders deep.
 */
export const placingLimits = {
  seconds: 600,
  memoryBytes: 384 * MiB,
  searched: 10_000,
  levels: 100,
}

/**
 * Concurrent child processes of one host process that place or copy files: in total, and of one account. This bounds their memory in
 * total.
 */
export const placingConcurrency = { atOnce: 4, perSubject: 2 }

export type PlacingLimits = typeof placingLimits
