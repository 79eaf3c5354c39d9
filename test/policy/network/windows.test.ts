import test from 'ava'
import { existingWindow, requestedWindow, windowName } from '../../../policy/network/windows.ts'

const now = Date.parse('2026-11-26T12:34:56.789Z')
const hour = 3_600_000
const iso = (time: number) => new Date(time).toISOString()

test('without both ends it is the last 24 hours, without one of them 24 hours from the other', t => {
  t.deepEqual(requestedWindow({}, now), { from: now - 24 * hour, to: now })
  t.deepEqual(requestedWindow({ start: iso(now - 30 * hour) }, now), { from: now - 30 * hour, to: now - 6 * hour })
  t.deepEqual(requestedWindow({ end: iso(now - hour) }, now), { from: now - 25 * hour, to: now - hour })
  const both = { start: iso(now - 2 * hour), end: iso(now + hour) }
  t.deepEqual(requestedWindow(both, now), { from: now - 2 * hour, to: now + hour })
})

test('times are ISO 8601, in UTC unless they say otherwise', t => {
  const from = (start: string) => iso(requestedWindow({ start }, now).from)
  t.is(from('2026-11-25'), '2026-11-25T00:00:00.000Z')
  t.is(from('2026-11-25T10:00'), '2026-11-25T10:00:00.000Z')
  t.is(from('2026-11-25T10:00:01'), '2026-11-25T10:00:01.000Z')
  t.is(from('2026-11-25T10:00:01.5Z'), '2026-11-25T10:00:01.500Z')
  t.is(from('2026-11-25T10:00:01.123456789-03:00'), '2026-11-25T13:00:01.123Z')
})

test('a window that is malformed, is too long, ends before it starts, or starts in the future is refused', t => {
  const refused: [start: string | undefined, end: string | undefined][] = [
    ['yesterday', undefined],
    ['', undefined],
    ['1764160000', undefined],
    ['Thu, 26 Nov 2026 12:00:00 GMT', undefined],
    ['2026-02-30', undefined],
    ['2026-13-01', undefined],
    ['2026-11-26T25:00:00Z', undefined],
    [undefined, '2026-11-26T12:00:00+99:00'],
    [iso(now - hour), iso(now - hour)],
    [iso(now - hour), iso(now - 2 * hour)],
    [iso(now - 7 * 24 * hour - 1), iso(now)],
    [iso(now + 1), undefined],
    [undefined, iso(now + 24 * hour + 1)],
  ]
  for (const [start, end] of refused)
    t.throws(() => requestedWindow({ start, end }, now), { message: /ISO 8601/ }, `${start} ${end}`)
  t.notThrows(() => requestedWindow({ start: iso(now - 7 * 24 * hour), end: iso(now) }, now))
})

test('a window begins with the application, and there is none before it', t => {
  t.deepEqual(existingWindow({ from: 0, to: 10 }, 4), { from: 4, to: 10 })
  t.deepEqual(existingWindow({ from: 5, to: 10 }, 4), { from: 5, to: 10 })
  t.is(existingWindow({ from: 0, to: 10 }, 10), null)
})

test('the same span until now has one name while time passes; another span and another past have others', t => {
  const until = (to: number, hours: number) => windowName({ from: to - hours * hour, to }, now)
  t.is(until(now, 24), until(now - 59_000, 24))
  t.not(until(now, 24), until(now + hour, 24), 'one that ends in the future has another start')
  t.not(until(now + hour, 24), until(now + 2 * hour, 24))
  t.not(until(now, 24), until(now, 23))
  t.not(until(now, 24), until(now - 60_000, 24))
  t.not(until(now - 2 * hour, 24), until(now - hour, 24))
})
