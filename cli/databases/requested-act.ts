import { type Db, transaction } from '../../db/database.ts'
import type { DatabaseAct } from '../../db/databases/database-acts.ts'
import type { OperatedDatabase } from '../../db/databases/database-operator.ts'
import type { OperationRow } from '../../db/operations/operations.ts'
import type { Installation } from '../installation/installation.ts'
import { awaitEnd, isPending, wakeLaneOrSay } from '../ops/lane.ts'
import { operatorName, recordAct } from '../ops/operator.ts'
import { oneLine } from '../terminal/printable.ts'

export interface ActPlace {
  installation: Pick<Installation, 'config'>
  db: Db
  /** Max seconds until the command returns although the operation has not ended. */
  waitSeconds: number
}

type Subject = Pick<OperatedDatabase, 'id' | 'owner_id'>

/**
 * Requests an act on a database, with its entry in the audit record, and waits until its operation has ended. Resolves to the operation as
 * it is then, or when the time is over; it continues in any case.
 */
export async function performAct(
  { installation: { config }, db, waitSeconds }: ActPlace,
  { id: databaseId, owner_id: ownerId }: Subject,
  action: string,
  request: (trx: Db, act: DatabaseAct) => Promise<{ id: string }>,
): Promise<OperationRow<string>> {
  const { id } = await transaction(db, async trx => {
    const queued = await request(trx, { databaseId, actor: operatorName() })
    await recordAct(trx, { action, accountId: ownerId, resource: databaseId, operationId: queued.id })
    return queued
  })
  await wakeLaneOrSay(config, { type: 'database', id: databaseId }, ownerId)
  return awaitEnd(db, id, waitSeconds)
}

/** Why an act has not succeeded (yet), and where to read more. */
export function unsuccessful(operation: OperationRow<string>): string {
  const { id, kind, state, code, message, target_id: databaseId } = operation
  if (isPending(operation)) return `The ${kind} has not finished yet and continues: berth ops explain ${id.slice(0, 8)}`
  const why = [code, message].filter(Boolean).join(': ')
  const words = state === 'cancelled' ? 'was cancelled' : 'FAILED'
  return oneLine(`The ${kind} ${words}: ${why}\nSee: berth databases explain ${databaseId.slice(0, 8)}`)
}

/** The outcome for scripts: exactly these keys. */
export const operationView = ({ id, target_id, state, code, message }: OperationRow<string>) => ({
  ...{ database: target_id, operation: id, state, code, message },
})
