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

export type PlacingLimits = typeof placingLimits
