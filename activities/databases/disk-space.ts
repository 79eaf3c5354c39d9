import { lstat, open, rename, rm, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { codeOf, diskFull } from '../../lib/folders/error-codes.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { type DiskSpace, diskGuard, hasRoomForBallast } from '../../policy/databases/disk-guard.ts'

/** Next to the folders of the engine, which can neither write nor remove it. */
const ballastFile = 'ballast'

/**
 * The room on a database's disk, by the root folder of its volume; null where it has no file system of its own, or that is not mounted:
 * then the numbers would be those of the host.
 */
export async function diskSpace(volume: string): Promise<DiskSpace | null> {
  const [own, above] = [await stat(volume).catch(missing), await stat(dirname(volume)).catch(missing)]
  if (!own || !above || own.dev === above.dev) return null
  const [{ blocks, bavail, bsize }, ballastBytes] = [await statfs(volume), await ballastBytesOf(volume)]
  return {
    // What the file system reserves for itself does not count as free: with nothing to write into, a disk is full.
    usedBytes: (blocks - bavail) * bsize - ballastBytes,
    totalBytes: blocks * bsize - diskGuard.ballastBytes,
    freeBytes: bavail * bsize,
    ballastBytes,
  }
}

async function ballastBytesOf(volume: string): Promise<number> {
  const file = await lstat(join(volume, ballastFile)).catch(missing)
  return file ? file.blocks * 512 : 0
}

/** Makes the ballast if it is missing, or has been used in part, and the disk has room for it. Does nothing otherwise. */
export async function layBallast(volume: string): Promise<void> {
  const space = await diskSpace(volume)
  if (!space || !hasRoomForBallast(space)) return
  const path = join(volume, ballastFile)
  const draft = `${path}.new`
  await rm(draft, { force: true })
  await rm(path, { force: true })
  try {
    // Blocks that are allocated and never written: they stay reserved, and the host's own disk has no part in it.
    await runProcess('fallocate', ['--length', String(diskGuard.ballastBytes), draft], { env: systemEnvironment })
    await rename(draft, path)
  } finally {
    await rm(draft, { force: true })
  }
  await syncFolder(volume)
}

/** Gives the room of the ballast back, for the start of an engine. */
export async function dropBallast(volume: string): Promise<void> {
  await rm(join(volume, ballastFile), { force: true })
  // What a removed file had can be used once its removal is written.
  await syncFolder(volume)
}

/**
 * Runs work that writes small files of the host into a volume. When the disk is full it gets some of the ballast, in pieces, as a running
 * engine may take what was freed. Everything that `work` does may be repeated.
 */
export async function withRoom<T>(volume: string, work: () => Promise<T>): Promise<T> {
  for (let piece = 1; ; piece++) {
    try {
      return await work()
    } catch (error) {
      if (!diskFull.has(codeOf(error)) || piece > diskGuard.maxPieces || !(await shrinkBallast(volume))) throw error
    }
  }
}

/** False when there is no ballast left to shrink. */
async function shrinkBallast(volume: string): Promise<boolean> {
  const file = await open(join(volume, ballastFile), 'r+').catch(missing)
  if (!file) return false
  try {
    const { size } = await file.stat()
    if (size < diskGuard.pieceBytes) return false
    await file.truncate(size - diskGuard.pieceBytes)
    await file.sync()
    return true
  } finally {
    await file.close()
  }
}

function missing(error: unknown): null {
  if (codeOf(error) === 'ENOENT') return null
  throw error
}
