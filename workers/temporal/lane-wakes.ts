import type { Lanes } from '../../workflows/client.ts'

/**
 * Wakes each lane at most once at a time. Callers during a wake-up share the next one, which starts after their row was committed: a
 * burst of pushes costs a few wake-ups instead of one each, also while Temporal is down.
 */
export function sharedWakes(lanes: Lanes): Lanes {
  const inProgress = new Map<string, { now: Promise<void>; next: Promise<void> | undefined }>()

  function begin(appId: string, ownerId: string): Promise<void> {
    const now = lanes.wake(appId, ownerId)
    inProgress.set(appId, { now, next: undefined })
    const ended = () => {
      if (inProgress.get(appId)?.now === now && !inProgress.get(appId)?.next) inProgress.delete(appId)
    }
    now.then(ended, ended)
    return now
  }

  return {
    wake(appId, ownerId) {
      const current = inProgress.get(appId)
      if (!current) return begin(appId, ownerId)
      const again = () => begin(appId, ownerId)
      current.next ??= current.now.then(again, again)
      return current.next
    },
  }
}
