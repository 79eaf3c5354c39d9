import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * The least number of bytes that is free on the disks of these folders; of one that does not exist yet, on the disk on which it would be
 * created. `other` counts only where it exists: it may be on another machine. Infinity when nothing can be read.
 */
export async function freeBytes(folders: readonly string[], other: string | null): Promise<number> {
  const free = [...folders.map(freeAbove), other === null ? null : freeIn(other)]
  return Math.min(...(await Promise.all(free)).map(bytes => bytes ?? Number.POSITIVE_INFINITY))
}

/** The free bytes of the disk of a folder. Rejects when that is missing or cannot be read. */
export async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** Null when the folder is missing or cannot be read. */
const freeIn = (folder: string): Promise<number | null> => freeBytesOf(folder).catch(() => null)

async function freeAbove(folder: string): Promise<number | null> {
  const parent = dirname(folder)
  return (await freeIn(folder)) ?? (parent === folder ? null : freeAbove(parent))
}
