import { memoryAlertRules } from '../apps/memory-alerts.ts'
import { maxCrashes } from './restarts.ts'

/**
 * When owners of databases are warned (contract 12.21). A warning is given once, until what it is about has ended; memory must fall below a lower share for
 * that, so that a use near the limit is one warning. What ends and begins again is warned of once an hour. Crashes after which an engine is
 * started again are warned of once a day: at the first one for lack of memory, else once there are so many within a day.
 */
export const databaseWarnings = {
  memoryEndsBelow: 0.8,
  diskEndsPointsBelow: 0.05,
  onceInHours: 1,
  crashesInDay: maxCrashes,
  /** Times of crashes that a row has: one that crashes without an end counts no further. */
  maxCrashTimes: 20,
  crashOnceInHours: 24,
} as const

/** Memory in bytes that a database uses, and may use: of Redis its data, of other engines what its processes hold. */
export interface UsedMemory {
  usedBytes: number
  limitBytes: number
}

type MemoryVerdict = 'warn' | 'end' | 'keep'

/** What a sample means for the warning about memory, after `high` consecutive samples that were too high. */
export function memoryVerdict(used: UsedMemory, high: number, isWarned: boolean): MemoryVerdict {
  if (isWarned) return used.usedBytes < used.limitBytes * databaseWarnings.memoryEndsBelow ? 'end' : 'keep'
  return high >= memoryAlertRules.samplesInARow ? 'warn' : 'keep'
}
