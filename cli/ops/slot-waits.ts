import type { OperationStory } from '../../db/operations/operator.ts'
import type { SnapshotSlotHolder } from '../../db/snapshots/snapshot-slots.ts'
import { snapshotSlotWait, snapshotsAtOnce } from '../../policy/hosts/host-slots.ts'
import { oneLine } from '../terminal/printable.ts'
import { age } from './ops-words.ts'

/** Which slots of its host an operation waits for, and what has them; empty when it waits for none. */
export function slotWaits(story: OperationStory, now: Date): string[] {
  const { operation, slotHolders } = story
  const builds = slotHolders.map(({ id, appId }) => `operation ${id.slice(0, 8)} of application ${appId}`)
  return [
    ...(builds.length > 0 ? [`Building now: ${builds.join(', ')}`] : []),
    ...(operation.step?.startsWith(snapshotSlotWait) ? snapshotSlotWaits(story, now) : []),
  ]
}

function snapshotSlotWaits({ operation, snapshotSlots }: OperationStory, now: Date): string[] {
  const own = snapshotSlots.find(({ operation_id: id }) => id === operation.id)
  if (own) return [`It has ${slotOf(own)}, and waits for its files, or for its host process.`]
  const ofAccount = snapshotSlots.find(({ owner_id: id }) => id === operation.owner_id)
  return [
    ...(ofAccount ? [`Its account already has a snapshot slot of its host, and can have only one.`] : []),
    ...(!ofAccount && snapshotSlots.length < snapshotsAtOnce
      ? ['A snapshot slot of its host is free: it waits for its turn, or for disk and memory alongside other copies.']
      : []),
    ...snapshotSlots.map(holder => {
      const { since, operation_id: id, kind, target_type: type, name, owner_email: email } = holder
      const what = `${kind ?? 'unknown'} of ${type === 'database' ? 'database ' : ''}${name ?? 'a deleted target'}`
      return oneLine(
        `${slotOf(holder)} for ${age(since, now)}: ${id.slice(0, 8)} ${what}, account ${email ?? 'deleted'}`,
      )
    }),
  ]
}

const slotOf = ({ place, host_id: hostId }: SnapshotSlotHolder): string => `snapshot slot ${place} of host ${hostId}`
