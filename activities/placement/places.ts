import { linkSync, mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { bytesOf, codeOf, unreachable } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { keptFolder, recordNames } from './job.ts'
import type { PlaceRequest } from './port.ts'

export interface Places {
  files: Tree
  releases: Tree
  /** `releases/<n>/` */
  release: Tree
}

/** Where a path of the application's folder lies below `releases/<n>/` until it is placed. */
export function sourceOf({ path }: PlaceRequest): (placed: string) => string {
  const prefix = path === '' ? '' : `${bytesOf(path)}/`
  return placed => `source/${placed.slice(prefix.length)}`
}

/** Where what a line of the journal replaced lies below `releases/<n>/`. */
export const replacedAs = (number: number): string => `${recordNames.replaced}/${number}`

/** Keeps what lies at a path under a number. A linked file stays where it is until something is renamed over it. */
export function setAside({ files, release }: Places, path: string, number: number, linked = false): void {
  const aside = release.at(replacedAs(number))
  try {
    if (linked && tryLink(files.at(path), aside)) return
    openToMove(files, path)
    renameSync(files.at(path), aside)
    files.forget()
  } catch (error) {
    if (!unreachable.has(codeOf(error))) throw error // else the application removed it itself
  }
}

/** False for files of another owner, and on file systems without links. */
function tryLink(from: Buffer, to: Buffer): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if (!['EPERM', 'EMLINK', 'ENOTSUP'].includes(codeOf(error))) throw error
    return false
  }
}

/** Moving a folder changes what is in it; its owner may have closed it to itself. Anything else needs nothing. */
function openToMove(tree: Tree, path: string): void {
  if (tree.stat(path)?.isDirectory()) tree.unlock(path)
}

/** Renames what a tree has under a name below the folder of kept versions, where its owner finds it, under a name that is free. */
export function keep(
  { files, release }: Places,
  number: number,
  path: string,
  [tree, name]: readonly [Tree, string],
): void {
  openToMove(tree, name)
  const names = [keptFolder, String(number), ...path.split('/')]
  try {
    for (const [index] of names.slice(0, -1).entries()) {
      const folder = names.slice(0, index + 1).join('/')
      if (!files.stat(folder)) mkdirSync(files.at(folder), { mode: 0o755 })
    }
    let place = names.join('/')
    for (let copy = 2; files.stat(place); copy++) place = `${names.join('/')}.${copy}`
    renameSync(tree.at(name), files.at(place))
  } catch (error) {
    // The application has put something else where kept versions lie: its own loss, and no reason to stay half done.
    if (!['ENOTDIR', 'ELOOP', 'EINVAL', 'ENAMETOOLONG', 'EACCES'].includes(codeOf(error))) throw error
    renameSync(tree.at(name), release.at(`${recordNames.replaced}/kept-${process.hrtime.bigint()}`))
  } finally {
    files.forget()
  }
}

/** Removes a folder in which nothing is; anything else stays. */
export function removeEmpty(files: Tree, path: string): void {
  files.forget()
  try {
    rmdirSync(files.at(path))
  } catch (error) {
    if (!stays.has(codeOf(error))) throw error
  }
}

const stays = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'ELOOP', 'EACCES', 'EBUSY'])
