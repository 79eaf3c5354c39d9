import type { Lanes } from '../../workflows/client.ts'

/**
 * Wakes each lane at most once at a time. Whoever asks while a wake-up is under way shares the next one, which begins after
 * their row was committed: a burst of pushes costs a few wake-ups and not one each, also while Temporal is away.
 */
export function sharedWakes(lanes: Lanes): Lanes {
  const underWay = new Map<string, { now: Promise<void>; next: Promise<void> | undefined }>()

  function begin(appId: string, ownerId: string): Promise<void> {
    const now = lanes.wake(appId, ownerId)
    underWay.set(appId, { now, next: undefined })
    const ended = () => {
      if (underWay.get(appId)?.now === now && !underWay.get(appId)?.next) underWay.delete(appId)
    }
    now.then(ended, ended)
    return now
  }

  return {
    wake(appId, ownerId) {
      const current = underWay.get(appId)
      if (!current) return begin(appId, ownerId)
      const again = () => begin(appId, ownerId)
      current.next ??= current.now.then(again, again)
      return current.next
    },
  }
}
