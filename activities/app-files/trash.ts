import { chmod, mkdir, readdir, rename, rmdir, unlink } from 'node:fs/promises'
import { coalesced } from '../../lib/async/coalesced.ts'
import { newId } from '../../policy/ids.ts'
import { AppFolder, ignore } from './folder.ts'

/** Next to the application's files, out of its reach. What a killed host left here is removed with the next file that is moved here. */
const trashName = 'trash'
/** A program can keep writing into a folder that was moved here; then emptying stops after this. */
const maxMs = 10 * 60_000

async function trashOf(volume: string): Promise<string> {
  const trash = `${volume}/${trashName}`
  await mkdir(trash, { mode: 0o700 }).catch(error => ignore(error, 'EEXIST'))
  return trash
}

/** Moves a file, link or folder out of an application's folder in one step: it is there whole, or missing. */
export async function moveToTrash(volume: string, folder: AppFolder, name: string): Promise<void> {
  await rename(folder.at(name), `${await trashOf(volume)}/${newId()}`)
}

/**
 * Removes folders in the volume; on return their content is deleted. Missing is success. Never by their paths: a folder that a program
 * can write to must not lead the host elsewhere, however late that program ends.
 */
export async function removeWhole(volume: string, ...folders: string[]): Promise<void> {
  const trash = await trashOf(volume)
  for (const folder of folders) await rename(folder, `${trash}/${newId()}`).catch(error => ignore(error, 'ENOENT'))
  await emptyTrash(volume)
}

/** Removes a volume that is a plain folder; missing is success. Only the host may change the names in it. */
export async function removeVolume(volume: string): Promise<void> {
  const names = await readdir(volume).catch(error => ignore(error, 'ENOENT') || null)
  if (!names) return
  await removeWhole(volume, ...names.filter(name => name !== trashName).map(name => `${volume}/${name}`))
  await rmdir(`${volume}/${trashName}`)
  await rmdir(volume)
}

/**
 * Frees the space of the trash, one run per volume at a time: callers during a run share the next one, so that a program with a
 * huge trash occupies only one of the few threads that all file calls of this process share, however often its owner deletes. Nested
 * folders are moved up before they are emptied, so that any depth needs only two open folders.
 */
export const emptyTrash: (volume: string) => Promise<void> = coalesced(emptyNow)

async function emptyNow(volume: string): Promise<void> {
  const trash = await AppFolder.open(`${volume}/${trashName}`)
  try {
    const deadline = Date.now() + maxMs
    for (let more = true; more && Date.now() < deadline; ) {
      more = false
      for await (const { name } of await trash.entries()) {
        more = true
        if (!(await removeFile(trash, name))) await removeFolder(trash, name)
      }
    }
  } finally {
    await trash.close()
  }
}

/** Another process may empty it too: missing is success. */
async function removeFolder(trash: AppFolder, name: string): Promise<void> {
  // Only the host can write here, so no link can take its place.
  const folder = await chmod(trash.at(name), 0o700)
    .then(() => trash.enter(name))
    .catch(error => ignore(error, 'ENOENT'))
  if (!folder) return
  try {
    for await (const inner of await folder.entries())
      if (!(await removeFile(folder, inner.name)))
        await rename(folder.at(inner.name), trash.at(newId())).catch(error => ignore(error, 'ENOENT'))
  } finally {
    await folder.close()
  }
  await rmdir(trash.at(name)).catch(error => ignore(error, 'ENOENT', 'ENOTEMPTY'))
}

/** False for a folder; missing is success. */
async function removeFile(folder: AppFolder, name: string): Promise<boolean> {
  return unlink(folder.at(name)).then(
    () => true,
    error => error.code === 'ENOENT' || ignore(error, 'EISDIR'),
  )
}
