import type { Db } from '../../db/database.ts'
import { findOperation, type OperationOutcome } from '../../db/operations/operations.ts'
import { cancelledByOperator } from '../../db/operations/operator-acts.ts'

/** Why an operation failed. */
export interface Failure {
  code: string
  message: string
}

/** Puts into the message that an operator cancelled the operation; the deletion of the application cancels it without one. */
export async function withCanceller(db: Db, operationId: string, failure: Failure): Promise<Failure> {
  if (failure.code !== 'DEPLOY_CANCELLED') return failure
  const by = (await findOperation(db, operationId))?.cancel_requested_by
  return by ? { ...failure, message: cancelledByOperator } : failure
}

/** Outcome to store for a failed operation. */
export function failed(failure: Failure): OperationOutcome {
  return { state: failure.code === 'DEPLOY_CANCELLED' ? 'cancelled' : 'error', ...failure }
}
