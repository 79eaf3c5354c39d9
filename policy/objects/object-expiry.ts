import { wholeNumbers } from '../stated-bounds.ts'

const hour = 3600
const day = 24 * hour

/** Expiries are from an hour to 1825 days; below 7 days uploads and updates require certain plans. */
const maxSeconds = 1825 * day
export const shortExpirySeconds = 7 * day

/** The form of a duration (contract 7.5): `30` and `30d` are days, `168h` hours; an hour to 1825 days. */
export const durationForm = new RegExp(
  `^(?:${wholeNumbers(1, maxSeconds / day)}d?|${wholeNumbers(1, maxSeconds / hour)}h)$`,
)

/** Seconds of a duration; undefined for other texts. */
export function durationSeconds(text: string): number | undefined {
  if (!durationForm.test(text)) return undefined
  return Number.parseInt(text, 10) * (text.endsWith('h') ? hour : day)
}

/** When an object expires, in whole seconds as in its id. */
export function expiryAfter(seconds: number, now: Date): Date {
  return new Date((Math.floor(now.getTime() / 1000) + seconds) * 1000)
}
