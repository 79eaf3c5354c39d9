import type { Db } from '../database.ts'

/** What an operation does while it has one of its host's build slots, and while it waits for one. */
export const building = 'building'
export const waitingForSlot = 'waiting for a build slot'

export interface SlotHolder {
  id: string
  appId: string
}

/**
 * An operation waits for a build slot of its host: writes down its place, for those who ask why it waits. Who holds the slots is
 * nothing for customers: other customers do (`slotHolders`).
 */
export async function waitForSlot(db: Db, operationId: string, hostId: string): Promise<void> {
  await db('operations').where({ id: operationId, state: 'running' }).update({ step: waitingForSlot })
  const waiting = await runningOn(db, hostId).where({ step: waitingForSlot }).count({ count: '*' }).first()
  const words = `a build slot of host ${hostId} (place ${waiting?.count ?? 1})`
  await db('deployments').where({ operation_id: operationId }).update({ waiting_for: words })
}

/** Operations that hold the build slots of a host now, for operators. */
export async function slotHolders(db: Db, hostId: string): Promise<SlotHolder[]> {
  return runningOn(db, hostId)
    .where({ step: building })
    .orderBy('operations.seq')
    .select('operations.id', 'operations.target_id as appId')
}

const runningOn = (db: Db, hostId: string) =>
  db('operations').join('apps', 'apps.id', 'operations.target_id').where({ 'apps.host_id': hostId, state: 'running' })

/** The deployment got its slot. */
export async function takeSlot(db: Db, deploymentId: string): Promise<void> {
  const [deployment] = await db('deployments')
    .where({ id: deploymentId })
    .update({ waiting_for: null })
    .returning('operation_id')
  if (deployment)
    await db('operations').where({ id: deployment.operation_id, state: 'running' }).update({ step: building })
}
