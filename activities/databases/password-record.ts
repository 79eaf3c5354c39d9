import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import type { Volumes } from '../volumes/port.ts'
import { withRoom } from './disk-space.ts'
import { databaseVolume } from './names.ts'
import { readSetting, writeSettings } from './settings-folder.ts'

/** Next to the folders of the engine, which cannot reach it. */
const file = 'password-generation'

/** In the place of a number: the engine may have either password. */
const changing = 'changing'

type Where = Pick<DatabaseFacts, 'id' | 'generation'>

const folderOf = (volumes: Pick<Volumes, 'path'>, database: Where) => ({
  settings: volumes.path(databaseVolume(database)),
})

/** Records which password the engine on the volume of a database has, synced; null = it is about to be changed. */
export async function recordPassword(
  volumes: Pick<Volumes, 'path'>,
  database: DatabaseFacts,
  generation: number | null,
): Promise<void> {
  const folder = folderOf(volumes, database)
  const files = { [file]: String(generation ?? changing) }
  // A full disk is no reason to keep a password.
  await withRoom(volumes.path(databaseVolume(database)), () => writeSettings(folder, files, database.uid))
}

/** Whether the engine on the volume of a database may have another password than that of its row. */
export async function hasOtherPassword(volumes: Pick<Volumes, 'path'>, database: DatabaseFacts): Promise<boolean> {
  const recorded = await readSetting(folderOf(volumes, database), file)
  // Volumes without a record have the password that they were made with, or none yet.
  return recorded !== null && recorded !== String(database.passwordGeneration)
}
