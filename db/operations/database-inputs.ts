import type { Db } from '../database.ts'

/** Input of an upgrade, once its host has chosen: ids of images. */
export interface UpgradeInput {
  images?: {
    /** The one that it ran with; null = unknown, as nothing of it was left. */
    from: string | null
    to: string
  }
}

/** Input of a drill: what it restores, and where. */
export interface DrillInput {
  snapshotId: string
  drillHost: string
}

/** Adds what an operation has decided to its input, where a repeated step finds it. */
export async function addToInput(trx: Db, operationId: string, more: object): Promise<void> {
  await trx('operations')
    .where({ id: operationId })
    .update({ input: trx.raw('input || ?::jsonb', [JSON.stringify(more)]) })
}
