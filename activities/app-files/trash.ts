import { chmod, mkdir, readdir, rename, rmdir, unlink } from 'node:fs/promises'
import { sharedTurns } from '../../lib/async/shared-turns.ts'
import { newId } from '../../policy/ids.ts'
import { AppFolder, ignore } from './folder.ts'

/** Beside the application's files, out of its reach. What a killed host left here goes with the next thing thrown away. */
const trashName = 'trash'
/** A program can go on writing into a folder that was taken away from it; it is given up on. */
const maxMs = 10 * 60_000

async function trashOf(volume: string): Promise<string> {
  const trash = `${volume}/${trashName}`
  await mkdir(trash, { mode: 0o700 }).catch(error => ignore(error, 'EEXIST'))
  return trash
}

/** Takes a file, link or folder out of an application's folder in one step: it is there whole, or gone. */
export async function throwAway(volume: string, folder: AppFolder, name: string): Promise<void> {
  await rename(folder.at(name), `${await trashOf(volume)}/${newId()}`)
}

/**
 * Removes folders that lie in the volume, for good on return; missing is success. Never by their paths: what a program is given to
 * write in must not lead the host elsewhere, however late that program ends.
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
 * Frees the space of what was thrown away, one at a time for a volume: callers meanwhile share the next turn, so that a program with a
 * huge trash takes one of the few threads that all file calls of this process share, however often its owner deletes. Folders
 * inside folders are brought up before they are emptied, so that no depth that a program can make costs more than two open folders.
 */
export const emptyTrash: (volume: string) => Promise<void> = sharedTurns(emptyNow)

async function emptyNow(volume: string): Promise<void> {
  const trash = await AppFolder.open(`${volume}/${trashName}`)
  try {
    const deadline = Date.now() + maxMs
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
