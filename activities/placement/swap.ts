import { renameSync, unlinkSync } from 'node:fs'
import { codeOf } from '../../lib/folders/error-codes.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'
import { manifestBefore, readManifest, writeManifest } from './manifest.ts'
import type { Places } from './places.ts'
import type { PlacedFiles, PlacementRequest } from './port.ts'
import { describe, isUnchanged } from './sources.ts'

// A restored tree replaces the whole folder by renaming folders that only the host can reach. Between two renames the folder
// may be missing; the next attempt, or the undo, continues from there.

/** Moves the old tree aside and the sources into its place. Swapped already is success. */
export function swapIn(volume: Tree, request: PlacementRequest): void {
  const release = volume.tree(`releases/${request.release}`)
  if (release.stat(source)) {
    if (!release.stat(before)) move([volume, 'files'], [release, before])
    move([release, source], [volume, 'files'])
  }
  release.close()
}

/** Makes the old tree the application's folder again. Nothing swapped, or settled already, is success. */
export function swapBack(volume: Tree, request: PlacementRequest): void {
  const release = volume.tree(`releases/${request.release}`)
  if (release.stat(before)) {
    if (release.stat(recordNames.manifest)) unlinkSync(release.at(recordNames.manifest))
    if (!release.stat(source)) move([volume, 'files'], [release, source])
    move([release, before], [volume, 'files'])
  }
  release.close()
}

/**
 * Records which files of the swapped tree came from releases: those that they brought and that are unchanged in it. The rest is the
 * application's own, so that the next push removes nothing that only the snapshot has.
 */
export function recordSwapped({ files, releases }: Places, { release }: PlacementRequest): PlacedFiles {
  const done = readManifest(releases, files, release)
  if (done) return done.placed
  const last = manifestBefore(releases, files, release)
  const earlier = last.all()
  const unchanged = [...earlier.files].flatMap(([path, released]) => {
    const stats = files.stat(path)
    return stats && isUnchanged(files, path, stats, released) ? [[path, describe(stats, released.hash)] as const] : []
  })
  const folders = [...earlier.folders].filter(([path]) => files.stat(path)?.isDirectory())
  const placed = { added: [], modified: [], removed: [] }
  const content = { folders: new Map(folders), files: new Map(unchanged) }
  writeManifest(releases, release, placed, { content, before: last })
  return placed
}

const source = 'source'
const { before } = recordNames

type Place = readonly [tree: Tree, name: string]

/** The target may be an empty folder, such as `Volumes.ensure` creates when it is missing. */
function move([from, name]: Place, [to, newName]: Place): void {
  try {
    renameSync(from.at(name), to.at(newName))
  } catch (error) {
    // Moving a folder writes to it, and its owner may have made it unwritable.
    if (codeOf(error) !== 'EACCES') throw error
    const mode = from.stat(name)!.mode & 0o7777
    from.unlock(name)
    from.forget()
    renameSync(from.at(name), to.at(newName))
    to.setMode(newName, mode)
  }
}
