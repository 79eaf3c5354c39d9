import { renameSync, unlinkSync } from 'node:fs'
import { codeOf } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import { describe, isAsBrought, manifestBefore, readManifest, writeManifest } from './manifest.ts'
import type { Places } from './places.ts'
import type { PlacedFiles, PlaceRequest } from './port.ts'

// A restored tree takes the place of the whole folder by renamings of folders that only the host can reach. Between two of
// them the folder may be missing; whoever comes next, forwards or backwards, goes on from there.

/** Puts the old tree aside and the sources in its place. Swapped already is success. */
export function swapIn(volume: Tree, request: PlaceRequest): void {
  const release = volume.tree(`releases/${request.release}`)
  if (release.stat(source)) {
    if (!release.stat(before)) move([volume, 'files'], [release, before])
    move([release, source], [volume, 'files'])
  }
  release.close()
}

/** The old tree is the application's folder again. Nothing swapped, or settled already, is success. */
export function swapBack(volume: Tree, request: PlaceRequest): void {
  const release = volume.tree(`releases/${request.release}`)
  if (release.stat(before)) {
    if (release.stat(recordNames.manifest)) unlinkSync(release.at(recordNames.manifest))
    if (!release.stat(source)) move([volume, 'files'], [release, source])
    move([release, before], [volume, 'files'])
  }
  release.close()
}

/**
 * Writes down what of the swapped tree came from releases: what they brought and it holds unchanged. The rest is the
 * application's own, so that the next push takes nothing away that only the snapshot has.
 */
export function recordSwapped({ files, releases }: Places, { release }: PlaceRequest): PlacedFiles {
  const done = readManifest(releases, files, release)
  if (done) return done.placed
  const earlier = manifestBefore(releases, files, release)
  const standing = [...earlier.files].flatMap(([path, brought]) => {
    const stats = files.stat(path)
    return stats && isAsBrought(files, path, stats, brought) ? [[path, describe(stats, brought.hash)] as const] : []
  })
  const folders = [...earlier.folders].filter(([path]) => files.stat(path)?.isDirectory())
  const placed = { added: [], modified: [], removed: [] }
  writeManifest(releases, release, { folders: new Map(folders), files: new Map(standing), placed })
  return placed
}

const source = 'source'
const { before } = recordNames

type Place = readonly [tree: Tree, name: string]

/** Over an empty folder, as `Volumes.ensure` makes where one is missing, too. */
function move([from, name]: Place, [to, newName]: Place): void {
  try {
    renameSync(from.at(name), to.at(newName))
  } catch (error) {
    // Moving a folder writes to it; its owner may have closed it to itself.
    if (codeOf(error) !== 'EACCES') throw error
    const mode = from.stat(name)!.mode & 0o7777
    from.unlock(name)
    from.forget()
    renameSync(from.at(name), to.at(newName))
    to.setMode(newName, mode)
  }
}
