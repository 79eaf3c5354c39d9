import { bytesOf } from '../../lib/folders/disk-names.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { dependencyFile, runtimes } from '../../policy/runtimes.ts'
import { refusal } from '../failures.ts'
import type { ReleaseFolders } from './files.ts'
import type { Release } from './release.ts'

/**
 * Whether the program that a new configuration speaks of is there, in what was uploaded or in the application's folder: it may
 * have come without its files. Throws INVALID_MAIN, MISSING_DEPENDENCIES_FILE.
 */
export function checkProgram({ main, start, language }: Release, { source, files }: ReleaseFolders): void {
  const trees = [source, files].map(folder => new Tree(folder, { readOnly: true }))
  try {
    const has = (path: string) => trees.some(tree => tree.stat(bytesOf(path))?.isDirectory() === false)
    if (main !== null && start === null && !has(main))
      throw refusal(
        'INVALID_MAIN',
        `MAIN names ${main}, which the application does not have; upper and lower case count.`,
      )
    const { dependenciesRequired, dependencyFiles, title } = runtimes[language]
    const names = trees.flatMap(tree => tree.list())
    if (dependenciesRequired && dependencyFile(language, names) === null)
      throw refusal('MISSING_DEPENDENCIES_FILE', `${title} needs ${dependencyFiles.join(' or ')} at the root.`)
  } finally {
    for (const tree of trees) tree.close()
  }
}
