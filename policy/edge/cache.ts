import { MiB } from '../../lib/bytes.ts'

/**
 * How the proxy caches answers of applications. `parts` caches share the disk, and an application has its answers in one of them: what it
 * stores can drop only what is in the same part.
 */
export const proxyCache = { parts: 8, maxFileMb: 64, inactive: '1d', lockSeconds: 5, minFreeMb: 512 } as const

/** Sizes in bytes, and the memory for keys of a part in MB, for a cache of `cacheMb`. About 8 KB per key, as small answers need on disk. */
export function cacheSizes(cacheMb: number): { part: number; maxFile: number; keysMb: number } {
  const part = Math.ceil((cacheMb * MiB) / proxyCache.parts)
  return {
    part,
    maxFile: Math.min(proxyCache.maxFileMb * MiB, Math.floor(part / 2)),
    keysMb: Math.max(1, Math.ceil(part / (64 * MiB))),
  }
}
