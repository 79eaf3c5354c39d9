import { strayTerms } from '../hosts/strays.ts'

const hour = 3600

/** What the platform does with blob storage by itself: how often, and in words. Each is one Temporal schedule. */
export const upkeep = {
  reclaim: { everySeconds: 600, words: 'give up chunked uploads that nobody goes on with' },
  expiry: { everySeconds: 120, words: 'remove objects whose time is over' },
  rules: { everySeconds: 900, words: 'remove objects that a rule of their account has grown too old for' },
  sweep: { everySeconds: 120, words: 'remove bodies that nobody refers to' },
  fold: { everySeconds: 300, words: 'add up what was stored and removed' },
  sample: { everySeconds: hour, words: 'note how much was stored for how long' },
  recount: { everySeconds: 6 * hour, words: 'compare the usage of accounts with their objects' },
} as const satisfies Record<string, { everySeconds: number; words: string }>

export type Upkeep = keyof typeof upkeep

export const upkeepKinds = Object.keys(upkeep) as Upkeep[]

/** How long things are left alone, in seconds. */
export interface UpkeepPatience {
  /** A chunked upload, since its last part. */
  idleSeconds: number
  /** A body on its way, since it was drawn or last said to be still coming. */
  drawnSeconds: number
  /** A body that nobody refers to any more. */
  unreferencedSeconds: number
  /** The same, of an object: whoever began to download it ends it. */
  downloadSeconds: number
}

/**
 * Contract 7.37: about 24 hours for uploads. A download of over an hour can break off when its object goes meanwhile. A database of an
 * earlier day believes that nothing was made of what had been drawn then: such bodies are strays, and kept as long.
 */
export const usualPatience: UpkeepPatience = {
  idleSeconds: 24 * hour,
  drawnSeconds: strayTerms.keptDays * 24 * hour,
  unreferencedSeconds: 60,
  downloadSeconds: hour,
}

/** Ids that a process has drawn ahead are used within this: the rest of the time is for their bodies to arrive. */
export const drawnAheadSeconds = 6 * hour

/** How long receipts are kept, in days; of runs that found nothing to do, less. */
export const receiptDays = 90
export const idleReceiptDays = 1
