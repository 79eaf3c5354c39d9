import type { Stats } from 'node:fs'
import { codeOf } from '../../lib/folders/error-codes.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { recordNames } from './job.ts'

/** A file or link as a release brought it: enough to detect later whether the application has changed it. */
export interface ReleasedFile {
  link: boolean
  size: number
  /** ms */
  mtime: number
  ino: number
  mode: number
  hash: string
}

export interface Sources {
  /** Mode of each folder, outer ones first. */
  folders: Map<string, number>
  files: Map<string, ReleasedFile>
}

export const noSources = (): Sources => ({ folders: new Map(), files: new Map() })

/**
 * Everything below a folder, without pipes, sockets and devices, without files that were changed after `until` (ms), and without
 * folders that were created after it: a program may nest them arbitrarily deep.
 */
export function scan(tree: Tree, until = Number.POSITIVE_INFINITY): Sources {
  const sources = noSources()
  const enter = (folder: string) => {
    for (const name of tree.list(folder)) {
      const path = folder === '' ? name : `${folder}/${name}`
      const stats = tree.stat(path)
      if (!stats) continue
      if (stats.isDirectory()) {
        if (stats.birthtimeMs > until) continue
        sources.folders.set(path, stats.mode & 0o777)
        enter(path)
      } else if ((stats.isFile() || stats.isSymbolicLink()) && stats.ctimeMs <= until) {
        sources.files.set(path, describe(stats, tree.hash(path, stats.isSymbolicLink())))
      }
    }
  }
  enter('')
  return sources
}

export function describe(stats: Stats, hash: string): ReleasedFile {
  const { size, mtimeMs: mtime, ino, mode } = stats
  return { link: stats.isSymbolicLink(), size, mtime, ino, mode: mode & 0o777, hash }
}

/** Whether a file is still as a release brought it. The content decides where time or inode differ, as after a restore. */
export function isUnchanged(tree: Tree, path: string, stats: Stats, released: ReleasedFile | undefined): boolean {
  if (!released || stats.isSymbolicLink() !== released.link || !(stats.isFile() || released.link)) return false
  if (stats.size !== released.size) return false
  if (stats.ino === released.ino && stats.mtimeMs === released.mtime) return true
  return readableHash(tree, path, released.link) === released.hash
}

/** Null for a file that its owner has made unreadable, which no release does. */
function readableHash(tree: Tree, path: string, link: boolean): string | null {
  try {
    return tree.hash(path, link)
  } catch (error) {
    if (codeOf(error) === 'EACCES') return null
    throw error
  }
}

export interface Plan extends Sources {
  /** Where they are placed: `path` of the request. Missing from older versions. */
  path?: string
}

/** Content of the sources when placing started; placing moves it away. */
export function planOf(release: Tree, path: string): Plan {
  const text = release.read(recordNames.plan)
  if (text) return parse<Plan>(text)
  const source = release.tree('source')
  const plan = { ...scan(source), path }
  source.close()
  release.write(recordNames.plan, stringify(plan))
  return plan
}

/** Stores maps as lists of pairs, in which names such as `__proto__` or `7` are not special. */
export const stringify = <T extends Sources>({ folders, files, ...rest }: T): string =>
  JSON.stringify({ ...rest, folders: [...folders], files: [...files] })

export function parse<T extends Sources>(text: string): T {
  const { folders, files, ...rest } = JSON.parse(text)
  return { ...rest, folders: new Map(folders), files: new Map(files) }
}
