import { access, chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Where the files of one release lie inside its application's volume. */
export function releaseFolders(volume: string, release: number) {
  const root = join(volume, 'releases', String(release))
  return {
    root,
    /** What the archive brought, until it is placed. */
    source: join(root, 'source'),
    /** What the install step made; mounted read-only. */
    dependencies: join(root, 'dependencies'),
    /** Written once the archive is unpacked whole: says what comes next. */
    marker: join(root, 'prepared.json'),
    /** The application's own folder, mounted at /app. */
    files: join(volume, 'files'),
  }
}

export type ReleaseFolders = ReturnType<typeof releaseFolders>

export interface Prepared {
  /** Shell text of the install step, or null when there is nothing to install. */
  install: string | null
}

/** An empty `source` folder owned by the application; what a killed attempt left is thrown away. */
export async function emptySource(folders: ReleaseFolders, owner: { uid: number; gid: number } | null): Promise<void> {
  await rm(folders.root, { recursive: true, force: true })
  await mkdir(folders.source, { recursive: true, mode: 0o755 })
  if (!owner) return
  await chown(folders.root, owner.uid, owner.gid)
  await chown(folders.source, owner.uid, owner.gid)
}

export async function readPrepared(folders: ReleaseFolders): Promise<Prepared | null> {
  try {
    return JSON.parse(await readFile(folders.marker, 'utf8'))
  } catch {
    return null
  }
}

/** The marker is renamed into place: a torn one is never read. */
export async function writePrepared(folders: ReleaseFolders, prepared: Prepared): Promise<void> {
  await writeFile(`${folders.marker}.new`, JSON.stringify(prepared))
  await rename(`${folders.marker}.new`, folders.marker)
}

/** Moves what the install step made out of the sources, to be mounted read-only. Moved already is success. */
export async function keepDependencies(folders: ReleaseFolders, from: string): Promise<void> {
  if (await exists(folders.dependencies)) return
  const made = join(folders.source, from)
  if (await exists(made)) await rename(made, folders.dependencies)
}

/** Puts the sources of a first release where the application finds them. Placed already is success. */
export async function placeFirst(folders: ReleaseFolders): Promise<void> {
  if (!(await exists(folders.source))) return
  const present = await readdir(folders.files).catch(() => [])
  if (present.length > 0)
    throw new Error(`The folder of the application is not empty: ${present.slice(0, 3).join(', ')}`)
  await rename(folders.source, folders.files)
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
