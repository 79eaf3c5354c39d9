import { FairSlots } from '../../lib/async/fair-slots.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { installConcurrency, installRules } from '../../policy/hosts/installs.ts'

/** Slots of this process for children that pack results in the background. Placing files, which deploys wait for, has its own. */
export const packingSlots = new FairSlots(installConcurrency.packing)

const readingSlots = new FairSlots(installConcurrency.reading)

/**
 * Waits for a slot of this process for a child that makes a digest of a result or unpacks one. Resolves to a function that releases it;
 * rejects when none is free in time, and with the reason of the signal.
 */
export const enterReading = (
  account: string,
  signal: AbortSignal,
  seconds: number = installRules.slotSeconds,
): Promise<() => void> => readingSlots.enterUntil(account, deadlineSignal(seconds * 1000, signal))
