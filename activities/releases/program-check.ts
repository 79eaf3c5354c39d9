import { dependencyFile, runtimes } from '../../policy/runtimes.ts'
import { AppFolder } from '../app-files/folder.ts'
import { refusal } from '../failures.ts'
import type { ReleaseFolders } from './files.ts'
import type { Release } from './release.ts'
import { hasFile, namesAmong } from './root-names.ts'

/**
 * Checks that the program that a new configuration names exists, in the upload or in the application's folder: the configuration may
 * be uploaded alone. The running program may change its folder meanwhile, so names are looked up one by one in folders that stay
 * open, and nothing is listed. Rejects with INVALID_MAIN, MISSING_DEPENDENCIES_FILE.
 */
export async function checkProgram(
  { main, start, language }: Release,
  { source, files }: ReleaseFolders,
): Promise<void> {
  const folders: AppFolder[] = []
  try {
    for (const path of [source, files]) folders.push(await AppFolder.open(path))
    if (main !== null && start === null && !(await hasAny(folders, main)))
      throw refusal(
        'INVALID_MAIN',
        `MAIN names ${main}, which the application does not have. Names are case-sensitive.`,
      )
    const { dependenciesRequired, dependencyFiles, title } = runtimes[language]
    if (!dependenciesRequired) return
    for (const folder of folders)
      if (dependencyFile(language, await namesAmong(folder, dependencyFiles)) !== null) return
    throw refusal('MISSING_DEPENDENCIES_FILE', `${title} needs ${dependencyFiles.join(' or ')} at the root.`)
  } finally {
    for (const folder of folders) await folder.close()
  }
}

async function hasAny(folders: readonly AppFolder[], path: string): Promise<boolean> {
  for (const folder of folders) if (await hasFile(folder, path)) return true
  return false
}
