import { chmod, mkdir, rename, rmdir, unlink } from 'node:fs/promises'
import { newId } from '../policy/ids.ts'
import { AppFolder, ignore } from './app-folder.ts'

/** Beside the application's files, out of its reach. What a killed host left here goes with the next thing thrown away. */
const trashName = 'trash'
/** A program can go on writing into a folder that was taken away from it; it is given up on. */
const longestMs = 10 * 60_000

/** Takes a file, link or folder out of an application's folder in one step: it is there whole, or gone. */
export async function throwAway(volume: string, folder: AppFolder, name: string): Promise<void> {
  const trash = `${volume}/${trashName}`
  await mkdir(trash, { mode: 0o700 }).catch(error => ignore(error, 'EEXIST'))
  await rename(folder.at(name), `${trash}/${newId()}`)
}

/**
 * Frees the space of what was thrown away. Folders inside folders are brought up before they are emptied, so that no depth that
 * a program can make costs more than two open folders.
 */
export async function emptyTrash(volume: string): Promise<void> {
  const trash = await AppFolder.open(`${volume}/${trashName}`)
  try {
    const deadline = Date.now() + longestMs
    for (let left = true; left && Date.now() < deadline; ) {
      left = false
      for await (const { name } of await trash.entries()) {
        left = true
        if (!(await removed(trash, name))) await removeFolder(trash, name)
      }
    }
  } finally {
    await trash.close()
  }
}

/** Another may be emptying it too: gone already is success. */
async function removeFolder(trash: AppFolder, name: string): Promise<void> {
  // Nobody else can put a link in its place here.
  const folder = await chmod(trash.at(name), 0o700)
    .then(() => trash.enter(name))
    .catch(error => ignore(error, 'ENOENT'))
  if (!folder) return
  try {
    for await (const inner of await folder.entries())
      if (!(await removed(folder, inner.name)))
        await rename(folder.at(inner.name), trash.at(newId())).catch(error => ignore(error, 'ENOENT'))
  } finally {
    await folder.close()
  }
  await rmdir(trash.at(name)).catch(error => ignore(error, 'ENOENT', 'ENOTEMPTY'))
}

/** False for a folder; gone already is success. */
async function removed(folder: AppFolder, name: string): Promise<boolean> {
  return unlink(folder.at(name)).then(
    () => true,
    error => error.code === 'ENOENT' || ignore(error, 'EISDIR'),
  )
}
