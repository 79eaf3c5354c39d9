import { retentionTimes } from '../../policy/retention.ts'
import type { Db } from '../database.ts'
import { addToInput } from '../operations/database-inputs.ts'

/** Numbers of volumes that an operation uses alongside the one that serves. */
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
  const row = await trx('databases')
    .where({ id: databaseId })
    .forUpdate()
    .first('generation', 'retired_generation', 'retired_until')
  if (!row || !volumes || before !== undefined) return
  await serveVolume(trx, databaseId, volumes.copy, row.generation)
  const { generation, retired_generation, retired_until } = row
  await addToInput(trx, operationId, { before: generation, retired: { retired_generation, retired_until } })
}

/** Makes the volume before a restore the one that serves again, and keeps the one that an earlier restore replaced. */
export async function revertVolume(trx: Db, operationId: string, databaseId: string): Promise<void> {
  const { before, retired, volumes } = await inputOf(trx, operationId)
  if (before === undefined) return
  await trx('databases')
    .where({ id: databaseId })
    .update({ generation: before, retired_generation: null, retired_until: null, ...retired })
  // The copy has never served: every moment belongs to the volume before.
  if (volumes)
    await trx('database_switches')
      .where({ database_id: databaseId })
      .where(at => at.where({ after: volumes.copy }).orWhere({ before: volumes.copy }))
      .delete()
  await trx('operations')
    .where({ id: operationId })
    .update({ input: trx.raw(`input - 'before' - 'retired'`) })
}

/** The volumes that an undo makes change places, as its operator has seen them. */
interface Swap {
  from: number
  to: number
}

/**
 * Makes the volume before the last restore the one that serves, and keeps the one that served, so that an undo can be undone. False when
 * the row has other volumes by now. May be repeated.
 */
export async function swapVolumes(trx: Db, operationId: string, databaseId: string): Promise<boolean> {
  const { swap, swapped } = await inputOf(trx, operationId)
  if (swapped) return true
  const row = await trx('databases').where({ id: databaseId }).forUpdate().first('generation', 'retired_generation')
  if (!swap || row?.generation !== swap.from || row.retired_generation !== swap.to) return false
  await serveVolume(trx, databaseId, swap.to, swap.from)
  await addToInput(trx, operationId, { swapped: true })
  return true
}

/** Undoes `swapVolumes`; nothing to undo is success. */
export async function revertSwap(trx: Db, operationId: string, databaseId: string): Promise<void> {
  const { swap, swapped } = await inputOf(trx, operationId)
  if (!swap || !swapped) return
  await serveVolume(trx, databaseId, swap.from, swap.to)
  await trx('operations')
    .where({ id: operationId })
    .update({ input: trx.raw(`input - 'swapped'`) })
}

async function serveVolume(trx: Db, id: string, generation: number, retired: number): Promise<void> {
  await trx('databases')
    .where({ id })
    .update({
      generation,
      retired_generation: retired,
      retired_until: trx.raw('now() + make_interval(secs => ?)', [retentionTimes.replacedVolumeSeconds]),
    })
}

interface VolumesInput {
  volumes?: ReservedVolumes
  before?: number
  /** What an earlier restore had replaced, as it was before this one. */
  retired?: { retired_generation: number | null; retired_until: string | null }
  swap?: Swap
  swapped?: boolean
}

async function inputOf(trx: Db, operationId: string): Promise<VolumesInput> {
  return (await trx('operations').where({ id: operationId }).first('input'))?.input ?? {}
}
