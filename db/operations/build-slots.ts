import type { Db } from '../database.ts'

/** Steps of an operation while it holds one of its host's build slots, and while it waits for one. */
const building = 'building'
export const waitingForSlot = 'waiting for a build slot'

export interface BuildSlotHolder {
  id: string
  appId: string
}

/**
 * Records that an operation waits for a build slot of its host, with its position, for people who ask why it waits. Customers are not
 * shown who holds the slots, because other customers do (`listBuildSlotHolders`).
 */
export async function waitForSlot(db: Db, operationId: string, hostId: string): Promise<void> {
  await db('operations').where({ id: operationId, state: 'running' }).update({ step: waitingForSlot })
  const waiting = await runningOn(db, hostId).where({ step: waitingForSlot }).count({ count: '*' }).first()
  const text = `a build slot of host ${hostId} (position ${waiting?.count ?? 1})`
  await db('deployments').where({ operation_id: operationId }).update({ waiting_for: text })
}

/** Operations that hold the build slots of a host, for operators. */
export async function listBuildSlotHolders(db: Db, hostId: string): Promise<BuildSlotHolder[]> {
  return runningOn(db, hostId)
    .where('step', 'like', `${building}%`)
    .orderBy('operations.seq')
    .select('operations.id', 'operations.target_id as appId')
}

const runningOn = (db: Db, hostId: string) =>
  db('operations').join('apps', 'apps.id', 'operations.target_id').where({ 'apps.host_id': hostId, state: 'running' })

/** Records that a deployment got its slot. */
export async function takeBuildSlot(db: Db, deploymentId: string): Promise<void> {
  const [deployment] = await db('deployments')
    .where({ id: deploymentId })
    .update({ waiting_for: null })
    .returning('operation_id')
  if (deployment)
    await db('operations').where({ id: deployment.operation_id, state: 'running' }).update({ step: building })
}
