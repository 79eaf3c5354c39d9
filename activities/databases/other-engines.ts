import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { engines } from '../../policy/databases/engines.ts'
import { type ContainerHost, labels } from '../containers/port.ts'
import { databaseContainerName, databaseJobName, databaseRole } from './names.ts'

/**
 * Ends engines on other volumes of a database, which have its port: a restore, or its undo, has not ended them. Also removes what a
 * snapshot of the stopped database has left when its host died: two engines on one volume destroy it.
 */
export async function endOtherEngines(
  engine: Pick<ContainerHost, 'list' | 'stop' | 'remove'>,
  hostId: string,
  database: DatabaseFacts,
): Promise<void> {
  const of = { [labels.host]: hostId, [labels.database]: database.id, [labels.role]: databaseRole }
  const own = databaseContainerName(database)
  for (const { name, running } of await engine.list(of))
    if (running && name !== own) await engine.stop(name, engines[database.engine].stop.graceSeconds)
  await engine.remove(databaseJobName(database))
}
