import { usedMemoryMb } from '../../db/accounts/account-reservations.ts'
import { findUser } from '../../db/accounts/accounts.ts'
import type { Db } from '../../db/database.ts'
import * as deployments from '../../db/deploys/deployments.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { areDatabasesSuspended, isSuspended, planExpiryActor } from '../../policy/accounts/suspension.ts'
import type { Fence } from '../steps/claims.ts'

/** Of databases only `start` is one of these: other kinds leave a stopped engine stopped. */
const starting: readonly string[] = ['start', 'restart', 'deploy'] satisfies operations.OperationKind[]

const suspended = {
  code: 'CONTAINER_TEMPORARILY_SUSPENDED',
  message:
    'The plan of this account has ended. Its applications and databases can be started once it has a plan again.',
}

/**
 * Ends an operation that the account's plan does not allow: one that would start a program after the plan has ended, or the stop
 * for that end once there is a plan again. False = it may run; an operation that has started continues whatever the plan says.
 */
export async function endSuspended(
  db: Db,
  plans: Plans,
  fence: Fence,
  operation: operations.OperationRow<string>,
): Promise<boolean> {
  const { id, kind, target_type: type, owner_id: ownerId, actor, step } = operation
  const starts = starting.includes(kind)
  if (step !== null || !(starts || actor === planExpiryActor)) return false
  if ((await accountSuspended(db, plans, ownerId, type)) !== starts) return false
  await fence(id, async trx => {
    const deployment = starts && (await deployments.findDeploymentByOperation(trx, id))
    if (deployment) await deployments.recordDeploymentStep(trx, deployment.id, { state: 'error', ...suspended })
    await operations.finishOperation(trx, id, starts ? { state: 'error', ...suspended } : { state: 'cancelled' })
  })
  return true
}

async function accountSuspended(
  db: Db,
  plans: Plans,
  ownerId: string,
  type: operations.OperationTarget['type'],
): Promise<boolean> {
  const user = await findUser(db, ownerId)
  if (!user?.plan_ends_at || user.plan_ends_at > new Date()) return false
  const suspends = type === 'app' ? isSuspended : areDatabasesSuspended
  return suspends(plans, user, await usedMemoryMb(db, ownerId), new Date())
}
