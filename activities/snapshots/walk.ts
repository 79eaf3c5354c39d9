import type { Stats } from 'node:fs'
import { nameText } from '../../lib/folders/disk-names.ts'
import { codeOf, leaseRefused, vanished } from '../../lib/folders/error-codes.ts'
import type { Tree } from '../../lib/folders/tree.ts'
import { manifestName } from './job.ts'
import { SnapshotRefused } from './port.ts'

/** Names in a zip have at most 65,535 bytes, and every folder on the path is held open. */
const maxDepth = 250

/**
 * Everything below a folder that a snapshot contains, in the order of `comparePaths`. The folder may change meanwhile: what
 * has vanished when it is reached is left out. Sockets, pipes and devices are left out too.
 */
export function* walk(tree: Tree, folder = '', depth = 1): Generator<[path: string, stats: Stats]> {
  if (depth > maxDepth)
    throw new SnapshotRefused(`${nameText(folder)} lies over ${maxDepth} folders deep, so it cannot be copied.`)
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
    throw unreadableRefused(error, folder)
  }
}

/** A host that is not root cannot copy what an application has made unreadable: no snapshot is better than an incomplete one. */
export function unreadableRefused(error: unknown, path: string): unknown {
  return codeOf(error) === 'EACCES'
    ? new SnapshotRefused(`${nameText(path)} cannot be read by its own user, so it cannot be copied.`)
    : leaseRefused(error, path)
}
