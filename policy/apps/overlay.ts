import { GiB, MiB } from '../../lib/bytes.ts'

/**
 * What copying an application's files for an install step may take at most: names, bytes read, folders one in another, seconds, and
 * resident bytes of the process that copies.
 */
export const overlayLimits = {
  entries: 1_000_000,
  bytes: 64 * GiB,
  depth: 250,
  seconds: 600,
  memoryBytes: 384 * MiB,
}

export type OverlayLimits = typeof overlayLimits
