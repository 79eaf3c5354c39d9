import type { SlotLimits } from '../hosts/host-slots.ts'

/** Pushes that one statement stores, or confirms: a busy process holds rows of applications for some tens of milliseconds. */
export const pushesAtOnce = 64

/**
 * Connections of a process with which pushes wait for applications that something else has locked, as a share of all: half of them, and
 * three of ten for one account. The rest is for pushes that are stored together, and for requests of waiting people.
 */
export function lockedPushSlots(databasePool: number): SlotLimits {
  const share = (tenths: number) => Math.max(1, Math.floor((databasePool * tenths) / 10))
  return { atOnce: share(5), perSubject: share(3) }
}
