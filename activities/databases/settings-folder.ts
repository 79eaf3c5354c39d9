import { chmod, chown, mkdir, open, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../lib/folders/error-codes.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import type { DatabaseFolders } from './container.ts'
import { certificateFiles } from './port.ts'

/** A pair of the engine, PEM, and the certificate of its authority. */
export interface ServerPair {
  certificate: string
  privateKey: string
  authority: string
}

const isRoot = process.getuid?.() === 0

/** Creates the folders of a volume besides `files/`. The host owns the settings, which the engine's group may read; the engine owns `run`. */
export async function makeFolders({ settings, run }: DatabaseFolders, uid: number): Promise<void> {
  await mkdir(settings, { recursive: true, mode: 0o750 })
  await mkdir(run, { recursive: true, mode: 0o700 })
  if (!isRoot) return
  await chown(settings, 0, uid)
  await chmod(settings, 0o750)
  await chown(run, uid, uid)
}

/** Writes text files of the settings folder, each by one rename, synced; those that are equal already stay untouched. */
export async function writeSettings(
  { settings }: Pick<DatabaseFolders, 'settings'>,
  files: Readonly<Record<string, string>>,
  uid: number,
): Promise<void> {
  // Concurrently, because the disk syncs several files in the time of one. A failure waits for the other writes: a repetition would do them again.
  const outcomes = await Promise.allSettled(
    Object.entries(files).map(async ([name, text]) => {
      if ((await readSetting({ settings }, name)) === text) return false
      await writeWhole(join(settings, name), text, uid)
      return true
    }),
  )
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  if (outcomes.some(outcome => outcome.status === 'fulfilled' && outcome.value)) await syncFolder(settings)
}

/** The text of a file of the settings folder; null when it is missing. */
export async function readSetting(
  { settings }: Pick<DatabaseFolders, 'settings'>,
  name: string,
): Promise<string | null> {
  return readFile(join(settings, name), 'utf8').catch(error => {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  })
}

/** Replaces the engine's pair: the key first, so that a certificate in the folder always has its key. */
export async function writePair(folders: DatabaseFolders, pair: ServerPair, uid: number): Promise<void> {
  await writeSettings(folders, { [certificateFiles.key]: pair.privateKey }, uid)
  await writeSettings(
    folders,
    {
      [certificateFiles.authority]: pair.authority,
      [certificateFiles.pair]: `${pair.privateKey.trimEnd()}\n${pair.certificate}`,
      [certificateFiles.certificate]: pair.certificate,
    },
    uid,
  )
}

async function writeWhole(path: string, text: string, uid: number): Promise<void> {
  const file = await open(`${path}.new`, 'w', 0o640)
  try {
    await file.writeFile(text)
    if (isRoot) await file.chown(0, uid)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.new`, path)
}

/** Writes an empty file that marks what was done before; synced with its name. */
export async function writeMarker(path: string): Promise<void> {
  const file = await open(path, 'w', 0o600)
  await file.sync().finally(() => file.close())
  await syncFolder(dirname(path))
}
