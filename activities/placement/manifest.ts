import type { Stats } from 'node:fs'
import { codeOf, textOf } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { listed, recordNames } from './job.ts'
import type { PlacedFiles } from './port.ts'

/** A file or link as a release brought it: enough to see later whether the application has changed it. */
export interface Brought {
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
  files: Map<string, Brought>
}

export interface Manifest extends Sources {
  placed: PlacedFiles
}

/**
 * Everything below a folder. Pipes, sockets and devices are left out; so are files that were changed and folders that were made
 * after `until` (ms), with everything in these: a program may make them deeper than anybody can follow.
 */
export function scan(tree: Tree, until = Number.POSITIVE_INFINITY): Sources {
  const sources: Sources = { folders: new Map(), files: new Map() }
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

export function describe(stats: Stats, hash: string): Brought {
  const { size, mtimeMs: mtime, ino, mode } = stats
  return { link: stats.isSymbolicLink(), size, mtime, ino, mode: mode & 0o777, hash }
}

/** Whether a release's file is still as it was brought. Content decides where time or number differ, as after a restore. */
export function isAsBrought(tree: Tree, path: string, stats: Stats, brought: Brought | undefined): boolean {
  if (!brought || stats.isSymbolicLink() !== brought.link || !(stats.isFile() || brought.link)) return false
  if (stats.size !== brought.size) return false
  if (stats.ino === brought.ino && stats.mtimeMs === brought.mtime) return true
  return readableHash(tree, path, brought.link) === brought.hash
}

/** Null for a file that its owner has closed to itself, which no release does. */
function readableHash(tree: Tree, path: string, link: boolean): string | null {
  try {
    return tree.hash(path, link)
  } catch (error) {
    if (codeOf(error) === 'EACCES') return null
    throw error
  }
}

/** What the releases up to the one before `release` have brought; nothing before the first. */
export function manifestBefore(releases: Tree, files: Tree, release: number): Manifest & { release: number } {
  for (const number of releaseNumbers(releases).filter(other => other < release)) {
    const manifest = readManifest(releases, files, number)
    if (manifest) return { ...manifest, release: number }
  }
  return { release: 0, folders: new Map(), files: new Map(), placed: noFiles() }
}

/** Null when the release is not placed. */
export function readManifest(releases: Tree, files: Tree, release: number): Manifest | null {
  const text = releases.read(`${release}/${recordNames.manifest}`)
  if (text) return parse<Manifest>(text)
  const first = releases.stat(`${release}/${recordNames.first}`)
  if (!first || releases.stat(`${release}/source`)) return null
  // A first release was moved as a whole; what changed since is the application's own.
  const sources = scan(files, first.mtimeMs)
  const manifest = { ...sources, placed: { ...noFiles(), added: toldNames([...sources.files.keys()]) } }
  writeManifest(releases, release, manifest)
  return manifest
}

export function writeManifest(releases: Tree, release: number, manifest: Manifest): void {
  releases.write(`${release}/${recordNames.manifest}`, stringify(manifest))
}

export interface Plan extends Sources {
  /** Where they are placed: `path` of the request. Older versions did not write it down. */
  path?: string
}

/** What the sources held when placing began; from then on they become fewer. */
export function planOf(release: Tree, path: string): Plan {
  const text = release.read(recordNames.plan)
  if (text) return parse<Plan>(text)
  const source = release.tree('source')
  const plan = { ...scan(source), path }
  source.close()
  release.write(recordNames.plan, stringify(plan))
  return plan
}

/** Maps as lists of pairs: names such as `__proto__` or `7` are only names in them. */
const stringify = ({ folders, files, ...rest }: Sources): string =>
  JSON.stringify({ ...rest, folders: [...folders], files: [...files] })

function parse<T extends Sources>(text: string): T {
  const { folders, files, ...rest } = JSON.parse(text)
  return { ...rest, folders: new Map(folders), files: new Map(files) }
}

/** Newest first. */
export function releaseNumbers(releases: Tree): number[] {
  const numbers = releases.list().filter(name => /^[1-9]\d*$/.test(name))
  return numbers.map(Number).sort((a, b) => b - a)
}

export const noFiles = (): PlacedFiles => ({ added: [], modified: [], removed: [] })

export const toldNames = (paths: string[]): string[] => paths.sort().slice(0, listed).map(textOf)
