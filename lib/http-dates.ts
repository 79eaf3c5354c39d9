const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const month = `(?<month>${months.join('|')})`
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const weekdayInFull = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const time = '(?<hour>[01]\\d|2[0-3]):(?<minute>[0-5]\\d):(?<second>[0-5]\\d|60)'

/** The three forms of RFC 9110, 5.6.7: the one of today, and two that recipients still take. */
const forms = [
  `${weekday}, (?<day>\\d\\d) ${month} (?<year>\\d{4}) ${time} GMT`,
  `${weekdayInFull}, (?<day>\\d\\d)-${month}-(?<year>\\d\\d) ${time} GMT`,
  `${weekday} ${month} (?<day>[ \\d]\\d) ${time} (?<year>\\d{4})`,
].map(form => new RegExp(`^${form}$`))

/** What an HTTP-date says, in whole seconds; undefined for every other text, however much it looks like a date. */
export function httpDate(text: string, now = new Date()): number | undefined {
  const found = forms.map(form => form.exec(text)?.groups).find(Boolean)
  if (!found) return undefined
  const [day, hour, minute, second] = [found.day, found.hour, found.minute, found.second].map(Number)
  const year = found.year?.length === 2 ? fullYear(Number(found.year), now) : Number(found.year)
  const at = new Date(0)
  at.setUTCFullYear(year, months.indexOf(found.month ?? ''), day)
  if (at.getUTCDate() !== day) return undefined // the 30th of February
  at.setUTCHours(hour!, minute, second)
  return at.getTime() / 1000
}

/** Of the years that end so, the last one that is not more than 50 years ahead. */
function fullYear(twoDigits: number, now: Date): number {
  const latest = now.getUTCFullYear() + 50
  return latest - ((latest - twoDigits) % 100)
}
