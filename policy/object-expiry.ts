const hour = 3600
const day = 24 * hour

/** Expiries are from an hour to 1825 days; below 7 days uploads and updates ask for a plan that has them. */
const longestSeconds = 1825 * day
export const shortExpirySeconds = 7 * day

/** Seconds of a duration (contract 10): `30` and `30d` are days, `168h` hours; undefined for other texts, and outside an hour to 1825 days. */
export function durationSeconds(text: string): number | undefined {
  const [, count, unit] = /^([1-9]\d{0,4})([dh]?)$/.exec(text) ?? []
  if (!count) return undefined
  const seconds = Number(count) * (unit === 'h' ? hour : day)
  return seconds <= longestSeconds ? seconds : undefined
}

/** The moment at which an object ends, in whole seconds as its id tells it. */
export function expiryAfter(seconds: number, now: Date): Date {
  return new Date((Math.floor(now.getTime() / 1000) + seconds) * 1000)
}
