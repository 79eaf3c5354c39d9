import { chown, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { MiB } from '../../lib/bytes.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { installRules } from '../../policy/hosts/installs.ts'
import { because } from '../../policy/runtimes/root-texts.ts'
import { ignore } from '../app-files/folder.ts'
import { removeWhole } from '../app-files/trash.ts'
import type { ReleaseFolders } from '../releases/files.ts'
import { bytesInLayers, type Layers } from '../releases/root-names.ts'

/** The bytes of the files that a step depends on, by name; or why they cannot be looked into. */
export async function inputFiles(
  layers: Layers,
  names: readonly string[],
): Promise<ReadonlyMap<string, Buffer> | { because: string }> {
  const { inputBytes, allInputBytes } = installRules
  const files = new Map<string, Buffer>()
  let total = 0
  for (const name of names) {
    const bytes = await bytesInLayers(layers, name, inputBytes)
    if (!bytes) return because(`${name} is missing, or larger than ${inputBytes / MiB} MiB`)
    total += bytes.length
    if (total > allInputBytes) return because(`the files that it depends on are larger than ${allInputBytes / MiB} MiB`)
    files.set(name, bytes)
  }
  return files
}

/** Creates a folder of a release with exactly these files; removes what a killed attempt left. */
export async function layInputs(
  folders: ReleaseFolders,
  files: ReadonlyMap<string, Buffer>,
  owner: Owner | null,
  into: 'build' | 'install' = 'install',
): Promise<void> {
  await emptyFolder(folders, into, owner)
  for (const [name, bytes] of files) {
    await makeFolders(folders[into], dirname(name), owner)
    const file = await open(join(folders[into], name), 'wx', 0o644)
    try {
      await file.writeFile(bytes)
      if (owner) await file.chown(owner.uid, owner.gid)
    } finally {
      await file.close()
    }
  }
}

/** Creates the folders above a file. Each belongs to the application: in one that does not, neither its step nor its removal could change anything. */
async function makeFolders(root: string, path: string, owner: Owner | null): Promise<void> {
  let folder = root
  for (const name of path.split('/').filter(name => name !== '.')) {
    folder = join(folder, name)
    await mkdir(folder, { mode: 0o755 }).catch(error => ignore(error, 'EEXIST'))
    if (owner) await chown(folder, owner.uid, owner.gid)
  }
}

/** Makes a folder of a release an empty one, which belongs to the application. */
export async function emptyFolder(
  folders: ReleaseFolders,
  name: 'build' | 'install' | 'tools',
  owner: Owner | null,
): Promise<void> {
  await removeWhole(folders.volume, folders[name])
  await mkdir(folders[name], { mode: 0o755 })
  if (owner) await chown(folders[name], owner.uid, owner.gid)
}
