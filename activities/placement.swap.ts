import { renameSync, type Stats, unlinkSync } from 'node:fs'
import { recordNames } from './placement.job.ts'
import {
  type Brought,
  describe,
  isAsBrought,
  manifestBefore,
  readManifest,
  writeManifest,
} from './placement.manifest.ts'
import type { Places } from './placement.places.ts'
import { codeOf, type Tree } from './placement.tree.ts'
import type { PlacedFiles, PlaceRequest } from './placement.ts'

// A restored tree takes the place of the whole folder by renamings of folders that only the host can reach. Between two of
// them the folder may be missing; whoever comes next, forwards or backwards, goes on from there.

/** Puts the old tree aside and the sources in its place. Swapped already is success. */
export function swapIn(volume: Tree, { release }: PlaceRequest): void {
  const [source, before] = sides(release)
  if (!volume.stat(source)) return
  if (!volume.stat(before)) move(volume, 'files', before)
  move(volume, source, 'files')
}

/** The old tree is the application's folder again. Nothing swapped, or settled already, is success. */
export function swapBack(volume: Tree, { release }: PlaceRequest): void {
  const [source, before] = sides(release)
  const manifest = `releases/${release}/${recordNames.manifest}`
  if (!volume.stat(before)) return
  if (volume.stat(manifest)) unlinkSync(volume.at(manifest))
  if (!volume.stat(source)) move(volume, 'files', source)
  move(volume, before, 'files')
}

/**
 * Writes down what of the swapped tree came from releases: what they brought and it holds unchanged. The rest is the
 * application's own, so that the next push takes nothing away that only the snapshot has.
 */
export function recordSwapped({ files, releases }: Places, { release }: PlaceRequest): PlacedFiles {
  const done = readManifest(releases, files, release)
  if (done) return done.placed
  const before = manifestBefore(releases, files, release)
  const standing = [...before.files].flatMap(([path, brought]) => {
    const stats = files.stat(path)
    return stats && isUnchanged(files, path, stats, brought) ? [[path, describe(stats, brought.hash)] as const] : []
  })
  const folders = [...before.folders].filter(([path]) => files.stat(path)?.isDirectory())
  const placed = { added: [], modified: [], removed: [] }
  writeManifest(releases, release, { folders: new Map(folders), files: new Map(standing), placed })
  return placed
}

/** What its owner may not read is no release's. */
function isUnchanged(files: Tree, path: string, stats: Stats, brought: Brought): boolean {
  try {
    return isAsBrought(files, path, stats, brought)
  } catch (error) {
    if (codeOf(error) === 'EACCES') return false
    throw error
  }
}

const sides = (release: number) => [`releases/${release}/source`, `releases/${release}/${recordNames.before}`] as const

/** Over an empty folder, as `Volumes.ensure` makes where one is missing, too. */
function move(volume: Tree, from: string, to: string): void {
  volume.forget()
  try {
    renameSync(volume.at(from), volume.at(to))
  } catch (error) {
    // Moving a folder writes to it; its owner may have closed it to itself.
    if (codeOf(error) !== 'EACCES') throw error
    volume.unlock(from)
    volume.forget()
    renameSync(volume.at(from), volume.at(to))
  }
  volume.forget()
}
