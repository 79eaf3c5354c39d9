import type { Db } from '../../db/database.ts'
import { findOperation, type OperationOutcome } from '../../db/operations/operations.ts'

/** Why an operation did not do what was asked. */
export interface Failure {
  code: string
  message: string
}

/** Who cancelled is told; without a person it was the deletion of the application. */
export async function inWords(db: Db, operationId: string, failure: Failure): Promise<Failure> {
  if (failure.code !== 'DEPLOY_CANCELLED') return failure
  const by = (await findOperation(db, operationId))?.cancel_requested_by
  return by ? { ...failure, message: `Cancelled by ${by}.` } : failure
}

/** How the row of an operation ends that failed so. */
export function failed(failure: Failure): OperationOutcome {
  return { state: failure.code === 'DEPLOY_CANCELLED' ? 'cancelled' : 'error', ...failure }
}
