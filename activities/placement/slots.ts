import { FairSlots } from '../../lib/async/fair-slots.ts'
import { placingConcurrency } from '../../policy/apps/placing-limits.ts'

/** Slots of this process for children that place or copy an application's files, shared fairly among accounts. */
export const placingSlots = new FairSlots(placingConcurrency)
