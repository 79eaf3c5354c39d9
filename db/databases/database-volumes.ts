import { retentionTimes } from '../../policy/retention.ts'
import type { Db } from '../database.ts'

/** Numbers of volumes that an operation uses beside the one that serves. */
interface ReservedVolumes {
  dump: number
  copy: number
}

/** Reserves two generations of a database for an operation, once: a repeated call keeps the first ones. */
export async function reserveVolumes(trx: Db, operationId: string, databaseId: string): Promise<void> {
  const row = await trx('databases').where({ id: databaseId }).forUpdate().first('next_generation')
  if (!row || (await inputOf(trx, operationId)).volumes) return
  const volumes: ReservedVolumes = { dump: row.next_generation, copy: row.next_generation + 1 }
  await trx('databases')
    .where({ id: databaseId })
    .update({ next_generation: row.next_generation + 2 })
  await addToInput(trx, operationId, { volumes })
}

/** Makes the copy of a restore the volume that serves. The one before stays until its retention is over. */
export async function switchVolume(trx: Db, operationId: string, databaseId: string): Promise<void> {
  const { volumes, before } = await inputOf(trx, operationId)
  const row = await trx('databases').where({ id: databaseId }).forUpdate().first('generation')
  if (!row || !volumes || before !== undefined) return
  await trx('databases')
    .where({ id: databaseId })
    .update({
      generation: volumes.copy,
      retired_generation: row.generation,
      retired_until: trx.raw('now() + make_interval(secs => ?)', [retentionTimes.replacedVolumeSeconds]),
    })
  await addToInput(trx, operationId, { before: row.generation })
}

/** Makes the volume before a restore the one that serves again. */
export async function revertVolume(trx: Db, operationId: string, databaseId: string): Promise<void> {
  const { before } = await inputOf(trx, operationId)
  if (before === undefined) return
  await trx('databases')
    .where({ id: databaseId })
    .update({ generation: before, retired_generation: null, retired_until: null })
  await trx('operations')
    .where({ id: operationId })
    .update({ input: trx.raw(`input - 'before'`) })
}

async function inputOf(trx: Db, operationId: string): Promise<{ volumes?: ReservedVolumes; before?: number }> {
  return (await trx('operations').where({ id: operationId }).first('input'))?.input ?? {}
}

async function addToInput(trx: Db, operationId: string, more: object): Promise<void> {
  await trx('operations')
    .where({ id: operationId })
    .update({ input: trx.raw('input || ?::jsonb', [JSON.stringify(more)]) })
}
