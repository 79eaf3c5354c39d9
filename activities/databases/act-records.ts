import type { Db } from '../../db/database.ts'
import { recordDrill } from '../../db/databases/database-drills.ts'
import { revertSwap, swapVolumes } from '../../db/databases/database-volumes.ts'
import { recordDatabaseImage } from '../../db/databases/databases.ts'
import type { UpgradeInput } from '../../db/operations/database-inputs.ts'
import * as operations from '../../db/operations/operations.ts'
import { drillOutcome } from '../../policy/databases/drills.ts'
import type { StartedDatabase } from '../database-host.ts'
import { refusal } from '../failures.ts'
import type { Fence } from '../steps/claims.ts'
import type { DatabaseOperation } from './operation.ts'
import type { DrillResult } from './snapshots/drill.ts'

/** Records outcomes of operators' acts on databases. `serves` records that an engine does. */
export function databaseActRecords(
  fence: Fence,
  serves: (trx: Db, databaseId: string, started: StartedDatabase) => Promise<void>,
) {
  return {
    /** The volume before the last restore becomes the one that serves, and the one that served is retained. May be repeated. */
    async swapVolumes(operation: DatabaseOperation): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        if (!(await swapVolumes(trx, id, databaseId))) throw refusal('ACTION_FAILED', otherVolumes)
      })
    },

    /** The volume that served before an undo serves again. */
    async revertSwap(operation: DatabaseOperation): Promise<void> {
      await fence(operation, (trx, { id, databaseId }) => revertSwap(trx, id, databaseId))
    },

    /** The database has the image that the upgrade has chosen, with which its engine serves; null = it does not run, or ran with it already. */
    async databaseUpgraded(operation: DatabaseOperation, started: StartedDatabase | null): Promise<void> {
      await fence(operation, async (trx, { id, databaseId }) => {
        const { images } = ((await operations.findOperation(trx, id))?.input ?? {}) as UpgradeInput
        if (!images) throw refusal('ACTION_FAILED', 'The upgrade has chosen no image.')
        if (started) await serves(trx, databaseId, started)
        await recordDatabaseImage(trx, databaseId, images.to)
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },

    /** What a drill has shown becomes evidence, whether its snapshot is good, is not, or could not be tried. */
    async databaseDrilled(operation: DatabaseOperation, { digest, reason, code: of }: DrillResult): Promise<void> {
      await fence(operation, async (trx, { id, hostId }) => {
        const code = reason === null ? null : (of ?? 'SNAPSHOT_CORRUPT')
        await recordDrill(trx, id, { host_id: hostId, outcome: drillOutcome(code), code, reason, digest })
        await operations.finishOperation(
          trx,
          id,
          code === null ? { state: 'success' } : { state: 'error', code, message: reason ?? '' },
        )
      })
    },
  }
}

const otherVolumes = 'The database was restored meanwhile: it has other volumes than were to change places.'
