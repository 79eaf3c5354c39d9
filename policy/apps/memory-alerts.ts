import { MiB } from '../../lib/bytes.ts'

/** When an owner is written to about memory. */
export const memoryAlertRules = {
  /** Share of its memory that an application may use without anybody being told. */
  share: 0.9,
  /** So many samples one after the other: a peak is nobody's business. */
  samplesInARow: 3,
  /** One mail for each application in so many hours. */
  onceInHours: 24,
} as const

/** How many samples in a row were too high, this one included. */
export function highInARow(before: number, usedBytes: number, limitMb: number): number {
  return usedBytes >= limitMb * MiB * memoryAlertRules.share ? before + 1 : 0
}
