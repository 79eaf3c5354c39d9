import type { Db } from '../../../db/database.ts'
import { storeCertificates } from '../../../db/databases/authorities.ts'
import { createDatabase, type DatabaseCreation } from '../../../db/databases/database-creation.ts'
import * as databases from '../../../db/databases/databases.ts'
import { engineNames } from '../../../policy/databases/engine.ts'
import { engines } from '../../../policy/databases/engines.ts'
import type { SealKeys } from '../../../policy/seal.ts'
import { scriptedCertificate, scriptedStart } from '../fakes/scripted-database-lanes.ts'
import { plansOfMemory } from './rows.ts'

/** The images of every version of every engine, as a host reports that it has them. */
export const readyImages: Record<string, string> = Object.fromEntries(
  engineNames.flatMap(name => engines[name].versions.map(version => [engines[name].image(version), 'ready'])),
)

/** Hosts that report no images report that they have all of them. */
export async function bringImages(db: Db): Promise<void> {
  await db('hosts')
    .where({ database_images: '{}' })
    .update({ database_images: JSON.stringify(readyImages) })
}

/** A database that runs, as its lane has left it. As `bringImages`. */
export async function makeDatabase(
  db: Db,
  keys: SealKeys,
  ownerId: string,
  changes: Partial<DatabaseCreation> = {},
): Promise<databases.DatabaseRow> {
  const { engine = 'redis' } = changes
  await bringImages(db)
  const version = changes.version ?? engines[engine].versions[0]!
  const { database, operationId } = await createDatabase(db, {
    ...{ ownerId, actor: ownerId, plans: plansOfMemory(10_000_000), name: 'store', engine, version },
    ...{ ramMb: engines[engine].minMemoryMb, images: [engines[engine].image(version)] },
    ...{ diskMbPer256Mb: 10, ports: { from: 20_000, to: 24_999 } },
    ...changes,
  })
  const { id } = database
  await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: db.fn.now() })
  const [renewAt, endsAt] = [new Date('2099-01-01'), new Date('2100-01-01')]
  const issued = { certificate: 'server certificate', client: scriptedCertificate(id), endsAt, renewAt }
  await storeCertificates(db, id, keys, issued)
  await databases.recordDatabaseStarted(db, id, scriptedStart())
  await databases.recordDatabaseProvisioned(db, id)
  return (await databases.loadDatabase(db, id))!
}
