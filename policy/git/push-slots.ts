import type { SlotLimits } from '../hosts/host-slots.ts'

/**
 * Pushes that a process stores concurrently, as a share of its database connections: eight of ten, the rest is for requests of waiting
 * people; and six of ten for one account.
 */
export function pushSlots(databasePool: number): SlotLimits {
  const share = (tenths: number) => Math.max(1, Math.floor((databasePool * tenths) / 10))
  return { atOnce: share(8), perSubject: share(6) }
}
