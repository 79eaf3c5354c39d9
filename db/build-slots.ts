import type { Db } from './database.ts'

/** What an operation does while it has one of its host's build slots, and while it waits for one. */
export const building = 'building'
export const waitingForSlot = 'waiting for a build slot'

interface Holder {
  id: string
  target_id: string
}

/** An operation waits for a build slot of its host: writes down its place and who holds the slots, for those who ask why it waits. */
export async function waitForSlot(db: Db, operationId: string, hostId: string): Promise<void> {
  await db('operations').where({ id: operationId, state: 'running' }).update({ step: waitingForSlot })
  const onHost = () =>
    db('operations').join('apps', 'apps.id', 'operations.target_id').where({ 'apps.host_id': hostId, state: 'running' })
  const holders: Holder[] = await onHost().where({ step: building }).select('operations.id', 'target_id')
  const waiting = await onHost().where({ step: waitingForSlot }).count({ count: '*' }).first()
  const held = holders.map(holder => `operation ${holder.id.slice(0, 8)} of application ${holder.target_id}`)
  const words = `a build slot of host ${hostId} (place ${waiting?.count ?? 1}; building now: ${held.join(', ') || 'nothing'})`
  await db('deployments').where({ operation_id: operationId }).update({ waiting_for: words })
}

/** The deployment got its slot. */
export async function takeSlot(db: Db, deploymentId: string): Promise<void> {
  const [deployment] = await db('deployments')
    .where({ id: deploymentId })
    .update({ waiting_for: null })
    .returning('operation_id')
  if (deployment)
    await db('operations').where({ id: deployment.operation_id, state: 'running' }).update({ step: building })
}
