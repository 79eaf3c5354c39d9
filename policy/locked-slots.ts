import type { SlotLimits } from './hosts/host-slots.ts'

/**
 * Connections of a process with which requests wait for what something else has locked (applications, an account's uploads, names of
 * objects), as a share of all: half of them, and three of ten for one account. The rest is for requests that wait for nobody.
 */
export function lockedSlots(databasePool: number): SlotLimits {
  const share = (tenths: number) => Math.max(1, Math.floor((databasePool * tenths) / 10))
  return { atOnce: share(5), perSubject: share(3) }
}
