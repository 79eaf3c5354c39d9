const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const month = `(?<month>${months.join('|')})`
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const weekdayInFull = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const time = '(?<hour>[01]\\d|2[0-3]):(?<minute>[0-5]\\d):(?<second>[0-5]\\d|60)'

/** The three forms of RFC 9110, 5.6.7: the current one, and two obsolete ones that recipients must accept. */
const forms = [
  `${weekday}, (?<day>\\d\\d) ${month} (?<year>\\d{4}) ${time} GMT`,
  `${weekdayInFull}, (?<day>\\d\\d)-${month}-(?<year>\\d\\d) ${time} GMT`,
  `${weekday} ${month} (?<day>[ \\d]\\d) ${time} (?<year>\\d{4})`,
].map(form => new RegExp(`^${form}$`))

/** Parses an HTTP-date to whole seconds since 1970; undefined for every other text, even if it looks like a date. */
export function httpDate(text: string, now = new Date()): number | undefined {
  const groups = forms.map(form => form.exec(text)?.groups).find(Boolean)
  if (!groups) return undefined
  const [day, hour, minute, second] = [groups.day, groups.hour, groups.minute, groups.second].map(Number)
  const year = groups.year?.length === 2 ? fullYear(Number(groups.year), now) : Number(groups.year)
  const at = new Date(0)
  at.setUTCFullYear(year, months.indexOf(groups.month ?? ''), day)
  if (at.getUTCDate() !== day) return undefined // the 30th of February
  at.setUTCHours(hour!, minute, second)
  return at.getTime() / 1000
}

/** The latest year with these two digits that is at most 50 years in the future. */
function fullYear(twoDigits: number, now: Date): number {
  const latest = now.getUTCFullYear() + 50
  return latest - ((latest - twoDigits) % 100)
}
