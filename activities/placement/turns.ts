import { FairSlots } from '../../lib/async/fair-slots.ts'
import { placingPlaces } from '../../policy/apps/placing.ts'

/** Of this process: each child that places or copies an application's files has a place of these, by its account. */
export const placingTurns = new FairSlots(placingPlaces)
