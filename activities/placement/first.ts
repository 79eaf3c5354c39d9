import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nameText } from '../../lib/folders/disk-names.ts'
import { placingLimits } from '../../policy/apps/placing-limits.ts'
import { AppFolder, ignore } from '../app-files/folder.ts'
import { isEmpty } from '../app-files/listing.ts'
import { exists, releaseFolders } from '../releases/files.ts'
import { maxListed, recordNames } from './job.ts'
import type { PlacedFiles, PlacementRequest } from './port.ts'

/**
 * Renames the sources of a first release to the application's folder, in one step. Null when this is not a first release: then files
 * are placed one by one. The file names are recorded before, so that a later attempt need not walk a folder that its program
 * may already change.
 */
export async function placeFirst(request: PlacementRequest): Promise<PlacedFiles | null> {
  const { source, files } = releaseFolders(request.volume, request.release)
  const marker = markerOf(request)
  if (!(await exists(source))) return (await exists(marker)) ? recordedFiles(marker) : null
  const fresh = request.path === '' && (await isFolderEmpty(request.volume))
  if (!fresh || (await exists(recordOf(request, recordNames.journal))) || (await isLater(request))) return null
  // Written before the program can change a file: files that are older by the file system's clock came with the release.
  const added = await namesOf(source)
  await writeFile(marker, JSON.stringify(added))
  await rename(source, files)
  return { added, modified: [], removed: [] }
}

/** Undoes a first release that is not settled; false when there is none. */
export async function restoreFirst(request: PlacementRequest): Promise<boolean> {
  const { source, files } = releaseFolders(request.volume, request.release)
  if (!(await exists(markerOf(request))) || (await exists(recordOf(request, recordNames.manifest)))) return false
  if (!(await exists(source))) await rename(files, source)
  await mkdir(files, { recursive: true, mode: 0o755 })
  if (request.owner) await chown(files, request.owner.uid, request.owner.gid)
  await rm(markerOf(request))
  return true
}

const recordOf = ({ volume, release }: PlacementRequest, name: string): string =>
  join(releaseFolders(volume, release).root, name)

const markerOf = (request: PlacementRequest): string => recordOf(request, recordNames.first)

/** Whether an earlier release was placed. */
async function isLater({ volume, release }: PlacementRequest): Promise<boolean> {
  const others = (await readdir(join(volume, 'releases'))).map(Number).filter(other => other < release)
  for (const other of others)
    for (const name of [recordNames.first, recordNames.manifest])
      if (await exists(join(releaseFolders(volume, other).root, name))) return true
  return false
}

/** Names of the sources, before a program runs; all are new. Bounded, as an install step may have created millions. */
async function namesOf(source: string): Promise<string[]> {
  const names: string[] = []
  let left = placingLimits.searched
  const enter = async (folder: AppFolder, prefix: string, levels: number): Promise<void> => {
    try {
      for await (const entry of await folder.entries()) {
        left -= 1
        if (left < 0 || names.length >= maxListed) return
        const path = prefix === '' ? nameText(entry.name) : `${prefix}/${nameText(entry.name)}`
        if (!entry.isDirectory()) names.push(path)
        else if (levels > 0) await enter(await folder.enter(entry.name), path, levels - 1)
      }
    } finally {
      await folder.close()
    }
  }
  await enter(await AppFolder.open(source), '', placingLimits.levels)
  return names.sort()
}

/** Empty for a marker of an older version, or one that was torn by a power cut. */
async function recordedFiles(marker: string): Promise<PlacedFiles> {
  const added = await readFile(marker, 'utf8')
    .then(JSON.parse)
    .catch(() => [])
  return { added, modified: [], removed: [] }
}

/** Whether the application's folder is empty or missing. A running program may use it meanwhile. */
async function isFolderEmpty(volume: string): Promise<boolean> {
  const parent = await AppFolder.open(volume)
  try {
    const files = await parent.enter('files').catch(error => ignore(error, 'ENOENT'))
    return !files || (await isEmpty(files).finally(() => files.close()))
  } finally {
    await parent.close()
  }
}
