import type { Db } from '../database.ts'

interface Rotation {
  /** Generation of the password before this rotation. */
  before: number
  /** Generation of the password that it sets. */
  wanted: number
}

/**
 * Gives a database the next password generation, before its engine gets that password. An operation that is repeated keeps the numbers
 * of its first attempt, so that no password is ever skipped. Undefined when the database is deleted.
 */
export async function beginRotation(trx: Db, operationId: string, databaseId: string): Promise<Rotation | undefined> {
  const earlier = await rotationOf(trx, operationId)
  const row = await trx('databases').where({ id: databaseId }).forUpdate().first('password_generation')
  if (!row) return undefined
  const before = earlier?.before ?? row.password_generation
  const rotation = { before, wanted: before + 1 }
  await trx('databases').where({ id: databaseId }).update({ password_generation: rotation.wanted })
  await trx('operations')
    .where({ id: operationId })
    .update({ input: trx.raw('input || ?::jsonb', [JSON.stringify({ rotation })]) })
  return rotation
}

/** Gives a database the generation that it had before a rotation, for the engine to get that password again; resolves to the other one. */
export async function revertRotation(trx: Db, operationId: string, databaseId: string): Promise<number> {
  const rotation = await rotationOf(trx, operationId)
  if (!rotation) return 0
  await trx('databases').where({ id: databaseId }).update({ password_generation: rotation.before })
  return rotation.wanted
}

/** Generation of the password that a rotation has set, from its input. */
export const rotatedTo = (input: Record<string, unknown>): number => (input.rotation as Rotation).wanted

async function rotationOf(trx: Db, operationId: string): Promise<Rotation | undefined> {
  const row = await trx('operations').where({ id: operationId }).first('input')
  return row?.input.rotation
}
