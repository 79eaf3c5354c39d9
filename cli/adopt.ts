import type { Command } from 'commander'
import { adoptParts, folderMark, storeMark } from '../activities/installation/installation.ts'
import { openObjectStore } from '../activities/objects/select.ts'
import { type Db, transaction } from '../db/database.ts'
import { readInstallation } from '../db/installation.ts'
import { databaseName } from '../policy/installation/installation.ts'
import { withCrashPoints } from '../workers/crash-points.ts'
import { withInstallation } from './installation/database.ts'
import type { Installation } from './installation/installation.ts'
import { recordAct } from './ops/operator.ts'

export function adoptCommand(program: Command): void {
  program
    .command('adopt')
    .option('--yes', 'do it; without this option only the current state is shown')
    .action(async ({ yes }: { yes?: boolean }) => {
      await withInstallation(async (installation, db) => {
        if (yes) console.log(`Everything now belongs to installation ${await adopt(installation, db)}.`)
        else console.log(await belongings(installation, db))
      })
    })
}

/** Marks folder and store as the database's, with an entry in the audit record. Resolves to the installation's id. */
export async function adopt({ config, dataDir }: Pick<Installation, 'config' | 'dataDir'>, db: Db): Promise<string> {
  const store = withCrashPoints('store', await openObjectStore(config.objectStore))
  const id = await adoptParts(withCrashPoints('db', db), dataDir, store)
  await transaction(db, trx => recordAct(trx, { action: 'installation.adopt', accountId: null, resource: id }))
  return id
}

async function belongings({ config, dataDir }: Installation, db: Db): Promise<string> {
  const store = await openObjectStore(config.objectStore)
  const ids = [(await readInstallation(db))?.id, await folderMark(dataDir), await storeMark(store)].map(
    id => id ?? 'none',
  )
  const isOne = ids[0] !== 'none' && new Set(ids).size === 1
  return [
    `installation of the database ${databaseName(config.databaseUrl)}: ${ids[0]}`,
    `installation of the data folder ${dataDir}: ${ids[1]}`,
    `installation of the object store: ${ids[2]}`,
    isOne
      ? 'They belong together: nothing needs to be done.'
      : 'To make folder and store belong to the database: berth adopt --yes',
  ].join('\n')
}
