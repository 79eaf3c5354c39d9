import type { Stats } from 'node:fs'
import { codeOf, textOf, toldLeased, vanished } from '../../lib/folders/disk-names.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { manifestName } from './job.ts'
import { SnapshotRefused } from './port.ts'

/** A zip's names have 65,535 bytes at most, and every folder on the way is held open. */
const deepest = 250

/**
 * Everything below a folder that a snapshot keeps, in the order of `comparePaths`. The folder may change meanwhile: what is gone
 * when its turn comes is left out. Sockets, pipes and devices are left out too.
 */
export function* walk(tree: Tree, folder = '', depth = 1): Generator<[path: string, stats: Stats]> {
  if (depth > deepest)
    throw new SnapshotRefused(`${textOf(folder)} lies over ${deepest} folders deep, so it cannot be copied.`)
  for (const name of names(tree, folder)) {
    const path = folder === '' ? name : `${folder}/${name}`
    if (path === manifestName) continue
    const stats = tree.stat(path)
    if (!stats) continue
    if (stats.isDirectory() || stats.isFile() || stats.isSymbolicLink()) yield [path, stats]
    if (stats.isDirectory()) yield* walk(tree, path, depth + 1)
  }
}

function names(tree: Tree, folder: string): string[] {
  try {
    return tree.list(folder).sort()
  } catch (error) {
    tree.forget()
    if (vanished.has(codeOf(error))) return []
    throw toldClosed(error, folder)
  }
}

/** A host that is not root cannot copy what an application has closed to itself: better no snapshot than one without it. */
export function toldClosed(error: unknown, path: string): unknown {
  return codeOf(error) === 'EACCES'
    ? new SnapshotRefused(`${textOf(path)} is closed to its own user, so it cannot be copied.`)
    : toldLeased(error, path)
}
