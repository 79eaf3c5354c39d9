/** Something that dies once is back at once; something that keeps dying does not burn the machine. Milliseconds. */
const delaysMs = [0, 250, 500, 1000, 2000, 5000, 10_000]

/** A process that lived this long has proved itself: its next death counts as the first. */
export const provenAfterMs = 30_000

/** How long to wait before the next start, after `deaths` deaths in a row (1 = the first). */
export function restartDelayMs(deaths: number): number {
  return delaysMs[Math.min(Math.max(deaths, 1), delaysMs.length) - 1] ?? 0
}
