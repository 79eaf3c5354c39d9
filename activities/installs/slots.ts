import { FairSlots } from '../../lib/async/fair-slots.ts'
import { installConcurrency } from '../../policy/hosts/installs.ts'

/** Slots of this process for children that pack results in the background. Placing files, which deploys wait for, has its own. */
export const packingSlots = new FairSlots(installConcurrency.packing)

/** Slots of this process for children that make a digest of a result or unpack one. */
export const readingSlots = new FairSlots(installConcurrency.reading)
