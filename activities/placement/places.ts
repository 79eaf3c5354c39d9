import { linkSync, mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { nameBytes } from '../../lib/folders/disk-names.ts'
import { codeOf, unreachable } from '../../lib/folders/error-codes.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames, replacedFolder } from './job.ts'
import type { PlacementRequest } from './port.ts'

export interface Places {
  files: Tree
  releases: Tree
  /** `releases/<n>/` */
  release: Tree
}

/** Maps a path of the application's folder to its path below `releases/<n>/` before it is placed. */
export function sourceOf({ path }: PlacementRequest): (placed: string) => string {
  const prefix = path === '' ? '' : `${nameBytes(path)}/`
  return placed => `source/${placed.slice(prefix.length)}`
}

/** Path below `releases/<n>/` of what a line of the journal replaced. */
export const replacedAs = (number: number): string => `${recordNames.replaced}/${number}`

/** Moves what lies at a path aside under a number. A linked file stays where it is until something is renamed over it. */
export function setAside({ files, release }: Places, path: string, number: number, linked = false): void {
  const aside = release.at(replacedAs(number))
  try {
    if (linked && linkTo(files.at(path), aside)) return
    openToMove(files, path)
    renameSync(files.at(path), aside)
    files.forget()
  } catch (error) {
    if (!unreachable.has(codeOf(error))) throw error // otherwise the application removed it itself
  }
}

/** Links a file. False for one of another owner, and on file systems without hard links. */
export function linkTo(from: Buffer, to: Buffer): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if (!['EPERM', 'EMLINK', 'ENOTSUP'].includes(codeOf(error))) throw error
    return false
  }
}

/** Moving a folder writes to it (its `..` entry), and its owner may have made it unwritable. Other files need nothing. */
function openToMove(tree: Tree, path: string): void {
  if (tree.stat(path)?.isDirectory()) tree.unlock(path)
}

/** Moves what a tree has under a name into `.replaced/`, where its owner finds it, under a free name. */
export function moveToReplaced(
  { files, release }: Places,
  number: number,
  path: string,
  [tree, name]: readonly [Tree, string],
): void {
  openToMove(tree, name)
  const names = [replacedFolder, String(number), ...path.split('/')]
  try {
    for (const [index] of names.slice(0, -1).entries()) {
      const folder = names.slice(0, index + 1).join('/')
      if (!files.stat(folder)) mkdirSync(files.at(folder), { mode: 0o755 })
    }
    let target = names.join('/')
    for (let copy = 2; files.stat(target); copy++) target = `${names.join('/')}.${copy}`
    renameSync(tree.at(name), files.at(target))
  } catch (error) {
    // The application has put something else at that path: it loses the version, but the release is not left half done.
    if (!['ENOTDIR', 'ELOOP', 'EINVAL', 'ENAMETOOLONG', 'EACCES'].includes(codeOf(error))) throw error
    renameSync(tree.at(name), release.at(`${recordNames.replaced}/kept-${process.hrtime.bigint()}`))
  } finally {
    files.forget()
  }
}

/** Removes an empty folder; anything else stays. */
export function removeEmpty(files: Tree, path: string): void {
  files.forget()
  try {
    rmdirSync(files.at(path))
  } catch (error) {
    if (!notEmptyFolder.has(codeOf(error))) throw error
  }
}

const notEmptyFolder = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'ELOOP', 'EACCES', 'EBUSY'])
