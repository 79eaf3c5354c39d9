import { strayTerms } from '../hosts/strays.ts'

const hour = 3600

/** Automatic upkeep of blob storage: interval, and description for operators. Each is one Temporal schedule. */
export const upkeep = {
  reclaim: { everySeconds: 600, words: 'abort chunked uploads that are idle' },
  expiry: { everySeconds: 120, words: 'delete expired objects' },
  rules: { everySeconds: 900, words: 'delete objects that are older than a rule of their account allows' },
  sweep: { everySeconds: 120, words: 'delete segments without references' },
  fold: { everySeconds: 300, words: 'add up what was stored and deleted' },
  sample: { everySeconds: hour, words: 'record how much was stored for how long' },
  recount: { everySeconds: 6 * hour, words: 'compare the usage of accounts with their objects' },
} as const satisfies Record<string, { everySeconds: number; words: string }>

export type Upkeep = keyof typeof upkeep

export const upkeepKinds = Object.keys(upkeep) as Upkeep[]

/** How long the upkeep waits before it acts, in seconds. */
export interface UpkeepTimes {
  /** For a chunked upload, after its last part. */
  idleSeconds: number
  /** For a segment without stored bytes, after its allocation or its last renewal. */
  drawnSeconds: number
  /** For a segment that lost its last reference. */
  unreferencedSeconds: number
  /** The same for a segment of an object, so that running downloads can finish. */
  downloadSeconds: number
  /** For a segment that the store failed to delete. */
  retrySeconds: number
}

/**
 * Contract 7.37: about 24 hours for uploads. A download of over an hour can break off when its object is deleted meanwhile. After a
 * restore of an older backup, segments that were allocated before it look unused: they are strays, and retained as long.
 */
export const upkeepTimes: UpkeepTimes = {
  idleSeconds: 24 * hour,
  drawnSeconds: strayTerms.keptDays * 24 * hour,
  unreferencedSeconds: 60,
  downloadSeconds: hour,
  retrySeconds: 600,
}

/** Ids that a process has allocated in advance are used within this: the rest of `drawnSeconds` is for their bytes to arrive. */
export const drawnAheadSeconds = 6 * hour

/**
 * An id that its process renews every few minutes until it is recorded, as of a snapshot, is swept so long after the last time: what the
 * process has stored before it was killed must not wait for `drawnSeconds`.
 */
export const heldAllocationSeconds = 2 * hour

/** How long receipts are retained, in days; shorter for runs that found nothing to do. */
export const receiptDays = 90
export const idleReceiptDays = 1
