import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { databaseContainerName } from './names.ts'
import { hasOtherPassword, recordPassword } from './password-record.ts'
import { type PreparationOptions, servingPrivately } from './preparation.ts'

/**
 * Gives an engine that does not run the password of its row, where nobody reaches it, if its volume has another one: it was made from a
 * snapshot, or set aside, before the password was reset. Otherwise a password that was replaced would open the database again.
 */
export async function renewPassword(
  options: PreparationOptions,
  database: DatabaseFacts,
  signal: AbortSignal,
): Promise<void> {
  const { engine, volumes, hosted } = options
  if (!(await hasOtherPassword(volumes, database))) return
  if ((await engine.inspect(databaseContainerName(database)))?.running) return
  await servingPrivately(options, database, signal, () =>
    hosted.locally(database, local => hosted.adapterOf(database).setPassword(local), signal),
  )
  await recordPassword(volumes, database, database.passwordGeneration)
}
