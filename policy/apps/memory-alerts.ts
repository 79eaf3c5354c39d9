/** When an owner is mailed about memory. */
export const memoryAlertRules = {
  /** Share of its memory that an application may use without an alert. */
  share: 0.9,
  /** Consecutive samples above that share: a single peak is ignored. */
  samplesInARow: 3,
  /** Max one mail per application in this many hours. */
  onceInHours: 24,
} as const

/** The number of consecutive samples that were too high, including this one. */
export function highInARow(before: number, usedBytes: number, limitBytes: number): number {
  return usedBytes >= limitBytes * memoryAlertRules.share ? before + 1 : 0
}
