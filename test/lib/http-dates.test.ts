import test from 'ava'
import { httpDate } from '../../lib/http-dates.ts'

const now = new Date('2030-06-01T00:00:00Z')
const day = Date.UTC(1994, 10, 6, 8, 49, 37) / 1000

for (const [text, seconds] of [
  ['Sun, 06 Nov 1994 08:49:37 GMT', day],
  ['Sunday, 06-Nov-94 08:49:37 GMT', day],
  ['Sun Nov  6 08:49:37 1994', day],
  ['Sun Nov 16 08:49:37 1994', day + 10 * 24 * 3600],
  ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
  ['Thu, 29 Feb 2024 23:59:60 GMT', Date.UTC(2024, 2, 1) / 1000],
  ['Sat, 01 Jan 0050 00:00:00 GMT', Date.parse('0050-01-01T00:00:00Z') / 1000],
  // Two digits are the past when they would be more than 50 years ahead.
  ['Tuesday, 01-Jan-80 00:00:00 GMT', Date.UTC(2080, 0) / 1000],
  ['Thursday, 01-Jan-81 00:00:00 GMT', Date.UTC(1981, 0) / 1000],
  ['Saturday, 01-Jan-00 00:00:00 GMT', Date.UTC(2000, 0) / 1000],
] as const)
  test(`"${text}" is a date`, t => {
    t.is(httpDate(text, now), seconds)
  })

for (const text of [
  '',
  '0',
  '1994',
  '784111777',
  '1994-11-06T08:49:37Z',
  'Sun, 06 Nov 1994 08:49:37',
  'Sun, 06 Nov 1994 08:49:37 UTC',
  'Sun, 06 Nov 1994 08:49:37 +0000',
  'Sun, 6 Nov 1994 08:49:37 GMT',
  'sun, 06 nov 1994 08:49:37 gmt',
  '06 Nov 1994 08:49:37 GMT',
  'Sun, 06 Nov 1994 24:00:00 GMT',
  'Sun, 00 Nov 1994 08:49:37 GMT',
  'Fri, 30 Feb 1996 08:49:37 GMT',
  'Sun Nov 6 08:49:37 1994',
  ' Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
])
  test(`"${text}" is not a date`, t => {
    t.is(httpDate(text, now), undefined)
  })
