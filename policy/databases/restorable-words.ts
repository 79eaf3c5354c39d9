import type { RestorableRange } from './point-in-time.ts'

/** Why a database cannot be restored to a moment, and to which it can. */
export function rangesWords(to: Date, ranges: readonly RestorableRange[], now: Date): string {
  const words = `The database cannot be restored to ${to.toISOString()}.`
  if (to > now) return `${words} That time is in the future.`
  if (ranges.length === 0) return `${words} There is no base backup of it yet.`
  const each = ranges.map(range => `from ${range.from.toISOString()} to ${range.to.toISOString()}`)
  return `${words} It can be restored to any second ${each.join(', or ')}.`
}
