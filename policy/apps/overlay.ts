import { GiB, MiB } from '../../lib/bytes.ts'

/**
 * Limits for copying an application's files for an install step: names, bytes read, depth of folders, seconds, and resident bytes of
 * the copying process.
 */
export const overlayLimits = {
  entries: 1_000_000,
  bytes: 64 * GiB,
  depth: 250,
  seconds: 600,
  memoryBytes: 384 * MiB,
}

export type OverlayLimits = typeof overlayLimits
