import { isUnavailable } from '../../../db/database.ts'
import { abandonCreation } from '../../../db/databases/abandoned-creations.ts'
import { forgetAnswerOf } from '../../../db/idempotency.ts'
import type { OperationRow } from '../../../db/operations/operations.ts'
import { CodedError, inDoubt, UnexpectedFailure } from '../../../policy/errors.ts'
import type { Services } from '../../services.ts'
import { waitForEnd, wakeDatabaseLane } from '../apps/command.ts'

interface Creation {
  databaseId: string
  ownerId: string
  operationId: string
}

/**
 * Resolves once a creation has succeeded. One that takes too long is cancelled, so that nothing of it is left. Throws
 * DATABASE_CREATION_FAILED, with status 500 when only the platform can have caused it.
 */
export async function awaitCreation(creation: Creation, signal: AbortSignal, services: Services): Promise<void> {
  const { claimMs, creationMs, holdMs } = services.timeouts
  const { operationId } = creation
  let ended = await waitForEnd(operationId, signal, services, { claimMs, holdMs: creationMs }, abandonCreation)
  if (!ended && !signal.aborted) {
    await cancel(creation, services)
    const leftMs = holdMs - creationMs
    ended = await waitForEnd(operationId, signal, services, { claimMs: leftMs, holdMs: leftMs })
  }
  if (!ended) throw new CodedError('DATABASE_CREATION_FAILED', 'The creation took too long, and was cancelled.')
  await assertCreated(ended, services)
}

async function cancel({ databaseId, ownerId, operationId }: Creation, services: Services): Promise<void> {
  await abandonCreation(services.db, operationId).catch(error => {
    throw isUnavailable(error) ? inDoubt() : error
  })
  wakeDatabaseLane(services, { id: databaseId, owner_id: ownerId })
}

/** Failures that an owner can understand, or that end by themselves; every other one is the platform's. */
const explained: readonly (string | null)[] = [
  'DATABASE_CREATION_FAILED',
  'CONTAINER_INSUFFICIENT_DISK_SPACE',
  'CONTAINER_NETWORK_CONFLICT',
  'CONTAINER_TEMPORARILY_SUSPENDED',
  'DEPLOY_FAILED',
  'ACTION_FAILED',
  'CLUSTER_UNAVAILABLE',
]

/**
 * Throws what `awaitCreation` throws for a creation that failed. After a failure of the platform the next request with the same key
 * creates anew.
 */
export async function assertCreated({ id, state, code, message }: OperationRow, services: Services): Promise<void> {
  if (state === 'success') return
  if (state !== 'error' || explained.includes(code))
    throw new CodedError('DATABASE_CREATION_FAILED', message || undefined)
  services.log.error({ operation: id, code, reason: message }, 'the creation of a database failed unexpectedly')
  await forgetAnswerOf(services.db, id)
  throw new UnexpectedFailure('DATABASE_CREATION_FAILED')
}
