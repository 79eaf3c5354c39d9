/**
 * What copying an application's files for an install step may take at most: names, bytes read, folders one in another, seconds, and
 * resident bytes of the process that copies.
 */
export const overlayLimits = {
  entries: 1_000_000,
  bytes: 64 * 1024 ** 3,
  depth: 250,
  seconds: 600,
  memoryBytes: 384 * 1024 ** 2,
}

export type OverlayLimits = typeof overlayLimits
