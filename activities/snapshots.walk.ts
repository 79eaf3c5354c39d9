import type { Stats } from 'node:fs'
import { codeOf, type Tree } from './placement.tree.ts'
import { manifestName } from './snapshots.job.ts'

/**
 * Everything below a folder that a snapshot keeps, in the order of `comparePaths`. The folder may change meanwhile: what is gone
 * when its turn comes is left out. Sockets, pipes and devices are left out too.
 */
export function* walk(tree: Tree, folder = ''): Generator<[path: string, stats: Stats]> {
  for (const name of names(tree, folder)) {
    const path = folder === '' ? name : `${folder}/${name}`
    if (path === manifestName) continue
    const stats = tree.stat(path)
    if (!stats) continue
    if (stats.isDirectory() || stats.isFile() || stats.isSymbolicLink()) yield [path, stats]
    if (stats.isDirectory()) yield* walk(tree, path)
  }
}

function names(tree: Tree, folder: string): string[] {
  try {
    return tree.list(folder).sort()
  } catch (error) {
    tree.forget()
    if (gone.has(codeOf(error))) return []
    throw error
  }
}

/** How something fails that was there a moment ago. */
export const gone: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EINVAL'])
