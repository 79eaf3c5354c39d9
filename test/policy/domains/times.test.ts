import test from 'ava'
import fc from 'fast-check'
import {
  believedRetryMs,
  interruptedDelayMs,
  isLostProofMailDue,
  lookDelayMs,
  orderDelayMs,
  orderLookDelayMs,
  renewalTime,
  warningsDue,
} from '../../../policy/domains/times.ts'

const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000] as const
const at = (ms: number) => new Date(Date.UTC(2027, 0, 1) + ms)

test('a name is looked at often at first, then more and more rarely, and lapses after 72 hours', t => {
  const rows: [ageMs: number, delayMs: number | null][] = [
    [0, 15 * second],
    [15 * minute - 1, 15 * second],
    [15 * minute, 2 * minute],
    [2 * hour, 10 * minute],
    [day, hour],
    [72 * hour - 1, hour],
    [72 * hour, null],
    [1000 * day, null],
  ]
  for (const [ageMs, delayMs] of rows) t.is(lookDelayMs(ageMs), delayMs, String(ageMs))
  let looks = 0
  for (let age = 0, delay = lookDelayMs(0); delay !== null; age += delay, delay = lookDelayMs(age)) looks++
  t.is(looks, 60 + 53 + 132 + 48)
})

test('an order under way is looked at less and less often', t => {
  t.deepEqual(
    [0, 1, 2, 3, 4, 5, 6, 7, 2000].map(looks => orderLookDelayMs(looks)),
    [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000],
  )
  t.is(orderLookDelayMs(2000, 1), 100)
})

test('refused orders are repeated after 1, 2, 4, 8, 16 and 24 hours, and never before the authority allows it', t => {
  t.deepEqual(
    [1, 2, 3, 4, 5, 6, 7, 2000].map(refusals => orderDelayMs(refusals) / hour),
    [1, 2, 4, 8, 16, 24, 24, 24],
  )
  t.is(orderDelayMs(1, 30 * hour), 30 * hour)
  t.is(orderDelayMs(3, hour), 4 * hour)
})

test('an order that is not answered goes on after 1, 1, 2, 4, 8 and 15 minutes, and never before the authority allows it', t => {
  const delays: number[] = []
  for (let age = 0; delays.length < 7; age += delays.at(-1)! * minute) delays.push(interruptedDelayMs(age) / minute)
  t.deepEqual(delays, [1, 1, 2, 4, 8, 15, 15])
  t.is(interruptedDelayMs(0, hour), hour)
})

test('an authority is believed for a week at most, and for an eighth of what is left of a certificate that serves', t => {
  const believed = (retryMs: number, endsMs: number | null) =>
    believedRetryMs(retryMs, endsMs === null ? null : at(endsMs), at(0))
  t.is(believed(30 * hour, null), 30 * hour)
  t.is(believed(3650 * day, null), 7 * day)
  t.is(believed(30 * hour, 8 * day), day)
  t.is(believed(hour, 8 * day), hour)
  t.is(believed(3650 * day, 80 * day), 7 * day)
  t.is(believed(30 * hour, -day), 30 * hour, 'it has ended: nothing is to be saved')
})

test('a lost proof is mailed once for each loss, after 3 days', t => {
  const isDue = (lostMs: number, mailedMs: number | null, nowMs: number) =>
    isLostProofMailDue({ lostAt: at(lostMs), mailedAt: mailedMs === null ? null : at(mailedMs) }, at(nowMs))
  t.false(isDue(0, null, 3 * day - 1))
  t.true(isDue(0, null, 3 * day))
  t.false(isDue(0, 3 * day, 4 * day))
  t.false(isDue(10 * day, 3 * day, 11 * day))
  t.true(isDue(10 * day, 3 * day, 13 * day))
})

const quarter = { notBefore: at(0), notAfter: at(90 * day) }

test('a certificate is renewed two thirds into its life, plus or minus 5 %, or when its authority says', t => {
  t.deepEqual(renewalTime(quarter, null, 0.5), at(60 * day))
  t.deepEqual(renewalTime(quarter, null, 0), at(55.5 * day))
  const window = { from: at(50 * day), to: at(52 * day) }
  t.deepEqual(renewalTime(quarter, window, 0), at(50 * day))
  t.deepEqual(renewalTime(quarter, window, 0.25), at(50.5 * day))
  t.deepEqual(renewalTime(quarter, { from: at(day), to: at(0) }, 0.9), at(day), 'a window the wrong way round')
  const late = { from: at(89 * day), to: at(400 * day) }
  t.deepEqual(
    [0, 0.9].map(draw => renewalTime(quarter, late, draw)),
    [at(78.75 * day), at(78.75 * day)],
  )
  fc.assert(
    fc.property(fc.double({ min: 0, max: 0.999_999, noNaN: true }), draw => {
      const share = (renewalTime(quarter, null, draw).getTime() - at(0).getTime()) / (90 * day)
      t.true(share > 0.616 && share < 0.717, `${draw} ${share}`)
    }),
  )
})

test('owners are warned 14 and 3 days before the end, and in proportion for a short life', t => {
  const due = (ms: number) => warningsDue(quarter, at(ms))
  t.deepEqual([due(76 * day - 1), due(76 * day), due(87 * day - 1), due(87 * day), due(91 * day)], [0, 1, 1, 2, 2])
  const short = { notBefore: at(0), notAfter: at(9 * day) }
  const dueShort = (ms: number) => warningsDue(short, at(ms))
  t.deepEqual([dueShort(7.5 * day), dueShort(7.6 * day), dueShort(8.6 * day), dueShort(8.7 * day)], [0, 1, 1, 2])
  const long = { notBefore: at(0), notAfter: at(360 * day) }
  t.deepEqual([warningsDue(long, at(345 * day)), warningsDue(long, at(346 * day))], [0, 1])
})
