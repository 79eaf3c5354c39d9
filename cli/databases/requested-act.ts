import { setTimeout as sleep } from 'node:timers/promises'
import { type Db, transaction } from '../../db/database.ts'
import type { DatabaseAct } from '../../db/databases/database-acts.ts'
import type { OperatedDatabase } from '../../db/databases/database-operator.ts'
import { findOperation, type OperationRow } from '../../db/operations/operations.ts'
import type { Installation } from '../installation/installation.ts'
import { wakeLane } from '../ops/lane.ts'
import { operatorName, recordAct } from '../ops/operator.ts'
import { oneLine } from '../terminal/printable.ts'
import { sayOnStderr } from '../terminal/terminal.ts'

const pollMs = 200

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
  if (!(await wakeLane(config, { type: 'database', id: databaseId }, ownerId)))
    sayOnStderr('Temporal does not answer. The request is saved and takes effect when Temporal is back.')
  for (const deadline = Date.now() + waitSeconds * 1000; ; await sleep(pollMs)) {
    const now = (await findOperation(db, id)) as OperationRow<string>
    if (!isPending(now) || Date.now() > deadline) return now
  }
}

export const isPending = ({ state }: Pick<OperationRow, 'state'>): boolean => ['queued', 'running'].includes(state)

/** Why an act has not succeeded (yet), and where to read more. */
export function unsuccessful(operation: OperationRow<string>): string {
  const { id, kind, state, code, message, target_id: databaseId } = operation
  if (isPending(operation)) return `The ${kind} is not over yet and continues: berth ops explain ${id.slice(0, 8)}`
  const why = [code, message].filter(Boolean).join(': ')
  const words = state === 'cancelled' ? 'was cancelled' : 'FAILED'
  return oneLine(`The ${kind} ${words}: ${why}\nSee: berth databases explain ${databaseId.slice(0, 8)}`)
}

/** The outcome for scripts: exactly these keys. */
export const operationView = ({ id, target_id, state, code, message }: OperationRow<string>) => ({
  ...{ database: target_id, operation: id, state, code, message },
})

/** Throws an Error unless the text is a whole number. */
export function secondsFrom(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new Error('--wait must be a whole number of seconds.')
  return Number(text)
}
