import { chown, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { textOf } from '../../lib/folders/disk-names.ts'
import { AppFolder } from '../app-files/folder.ts'
import { exists, releaseFolders } from '../releases/files.ts'
import { listed, recordNames } from './job.ts'
import type { PlacedFiles, PlaceRequest } from './port.ts'

/**
 * Makes the sources of a first release the application's folder, in one step. Null when this is no first release: then files
 * are placed one by one. Nothing runs yet, so nobody can be laying links.
 */
export async function placeFirst(request: PlaceRequest): Promise<PlacedFiles | null> {
  const { source, files } = releaseFolders(request.volume, request.release)
  const marker = markerOf(request)
  if (!(await exists(source))) return (await exists(marker)) ? told(files) : null
  const fresh = request.path === '' && (await readdir(files).catch(() => [])).length === 0
  if (!fresh || (await exists(recordOf(request, recordNames.journal))) || (await isLater(request))) return null
  // Written before the program can change a file: what the file system's clock calls older came with the release.
  await writeFile(marker, '')
  await rename(source, files)
  return told(files)
}

/** Takes a first release back while nothing was settled; false when there is none. */
export async function restoreFirst(request: PlaceRequest): Promise<boolean> {
  const { source, files } = releaseFolders(request.volume, request.release)
  if (!(await exists(markerOf(request))) || (await exists(recordOf(request, recordNames.manifest)))) return false
  if (!(await exists(source))) await rename(files, source)
  await mkdir(files, { recursive: true, mode: 0o755 })
  if (request.owner) await chown(files, request.owner.uid, request.owner.gid)
  await rm(markerOf(request))
  return true
}

const recordOf = ({ volume, release }: PlaceRequest, name: string): string =>
  join(releaseFolders(volume, release).root, name)

const markerOf = (request: PlaceRequest): string => recordOf(request, recordNames.first)

/** Whether an earlier release was placed. */
async function isLater({ volume, release }: PlaceRequest): Promise<boolean> {
  const others = (await readdir(join(volume, 'releases'))).map(Number).filter(other => other < release)
  for (const other of others)
    for (const name of [recordNames.first, recordNames.manifest])
      if (await exists(join(releaseFolders(volume, other).root, name))) return true
  return false
}

/** The first names in the folder; everything is new. */
async function told(folder: string): Promise<PlacedFiles> {
  const added: string[] = []
  const enter = async (here: AppFolder, below: string): Promise<void> => {
    try {
      for await (const entry of await here.entries()) {
        if (added.length >= listed) return
        const path = below === '' ? textOf(entry.name) : `${below}/${textOf(entry.name)}`
        if (entry.isDirectory()) await enter(await here.enter(entry.name), path)
        else added.push(path)
      }
    } finally {
      await here.close()
    }
  }
  await enter(await AppFolder.open(folder), '')
  return { added: added.sort(), modified: [], removed: [] }
}
