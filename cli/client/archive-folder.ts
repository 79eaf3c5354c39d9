import { createWriteStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import ignore, { type Ignore } from 'ignore'
import { ZipFile } from 'yazl'

/** Always left out: the server drops them anyway, and sending them only takes time. */
const alwaysIgnored = ['node_modules/', '.git/', '.venv/', '__pycache__/']

/** Zips a folder into `target`, without the paths that its `.berthignore` (gitignore rules) names. Resolves to the number of files. */
export async function archiveFolder(folder: string, target: string): Promise<number> {
  const rules = ignore().add(alwaysIgnored)
  rules.add(await readFile(join(folder, '.berthignore'), 'utf8').catch(() => ''))
  const zip = new ZipFile()
  const written = pipeline(zip.outputStream, createWriteStream(target, { mode: 0o600 }))
  let count = 0
  for await (const path of filesBelow(folder, folder, rules)) {
    zip.addFile(join(folder, path), path)
    count++
  }
  zip.end()
  await written
  return count
}

/** Paths below `folder`, relative to `root`. An ignored folder is not entered; symlinks are followed to files only. */
async function* filesBelow(root: string, folder: string, rules: Ignore): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true })
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = relative(root, join(folder, entry.name))
    if (rules.ignores(entry.isDirectory() ? `${path}/` : path)) continue
    if (entry.isDirectory()) yield* filesBelow(root, join(folder, entry.name), rules)
    else if (entry.isFile() || (entry.isSymbolicLink() && (await isFile(join(folder, entry.name))))) yield path
  }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    stats => stats.isFile(),
    () => false,
  )
}
