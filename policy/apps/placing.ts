import { MiB } from '../../lib/bytes.ts'

/**
 * What a child that places files may take at most: seconds, and resident bytes. `searched` entries of a first release are looked at for
 * the names of its event, `levels` folders deep.
 */
export const placingLimits = {
  seconds: 600,
  memoryBytes: 384 * MiB,
  searched: 10_000,
  levels: 100,
}

/**
 * Children that place or copy files, of one host process: so many at the same time, and so many of one account. The memory of all
 * of them together is bounded by it.
 */
export const placingPlaces = { atOnce: 4, perSubject: 2 }

export type PlacingLimits = typeof placingLimits
