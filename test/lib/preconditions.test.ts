import test from 'ava'
import { portionOf } from '../../lib/preconditions.ts'

const modified = new Date('2030-01-01T00:00:10.900Z')
const body = { etag: 'abc', modified, size: 10 }
const at = (seconds: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, seconds)).toUTCString()

for (const [headers, status, range] of [
  [{}, 200, null],
  // If-Match, and If-Unmodified-Since only without it.
  [{ 'if-match': '"abc"' }, 200, null],
  [{ 'if-match': 'abc' }, 200, null],
  [{ 'if-match': '"x", "abc"' }, 200, null],
  [{ 'if-match': '*' }, 200, null],
  [{ 'if-match': '"x"' }, 412, null],
  [{ 'if-match': 'W/"abc"' }, 412, null],
  [{ 'if-match': '"abc"', 'if-unmodified-since': at(0) }, 200, null],
  [{ 'if-unmodified-since': at(10) }, 200, null],
  [{ 'if-unmodified-since': at(9) }, 412, null],
  [{ 'if-unmodified-since': 'yesterday' }, 200, null],
  [{ 'if-unmodified-since': '0' }, 200, null],
  [{ 'if-unmodified-since': '2029-12-31T00:00:00Z' }, 200, null],
  [{ 'if-match': '"*"' }, 412, null],
  // If-None-Match, and If-Modified-Since only without it.
  [{ 'if-none-match': '"abc"' }, 304, null],
  [{ 'if-none-match': 'W/"abc"' }, 304, null],
  [{ 'if-none-match': '"x", "abc"' }, 304, null],
  [{ 'if-none-match': '*' }, 304, null],
  [{ 'if-none-match': '"x"' }, 200, null],
  [{ 'if-none-match': '"x"', 'if-modified-since': at(20) }, 200, null],
  [{ 'if-modified-since': at(10) }, 304, null],
  [{ 'if-modified-since': at(9) }, 200, null],
  [{ 'if-modified-since': 'never' }, 200, null],
  [{ 'if-modified-since': '2031' }, 200, null],
  [{ 'if-modified-since': `${Date.UTC(2031)}` }, 200, null],
  [{ 'if-none-match': '"*"' }, 200, null],
  [{ 'if-none-match': '"x,abc,y"' }, 200, null],
  [{ 'if-none-match': '"x,y" ,W/"abc"' }, 304, null],
  // The order: 412 before 304 before a range.
  [{ 'if-match': '"x"', 'if-none-match': '"abc"' }, 412, null],
  [{ 'if-none-match': '"abc"', range: 'bytes=0-1' }, 304, null],
  [{ 'if-none-match': '"abc"', range: 'bytes=99-' }, 304, null],
  // Ranges.
  [{ range: 'bytes=2-4' }, 206, { from: 2, to: 4 }],
  [{ range: 'bytes=2-' }, 206, { from: 2, to: 9 }],
  [{ range: 'bytes=-3' }, 206, { from: 7, to: 9 }],
  [{ range: 'bytes=0-0' }, 206, { from: 0, to: 0 }],
  [{ range: 'bytes=5-99' }, 206, { from: 5, to: 9 }],
  [{ range: 'bytes=10-' }, 416, null],
  [{ range: 'bytes=-0' }, 416, null],
  [{ range: 'bytes=0-1,3-4' }, 200, null],
  [{ range: 'bytes=4-2' }, 200, null],
  [{ range: 'lines=1-2' }, 200, null],
  [{ range: 'bytes=2-4', 'if-range': '"abc"' }, 206, { from: 2, to: 4 }],
  [{ range: 'bytes=2-4', 'if-range': 'W/"abc"' }, 200, null],
  [{ range: 'bytes=2-4', 'if-range': '"x"' }, 200, null],
  [{ range: 'bytes=2-4', 'if-range': at(10) }, 200, null], // another body of the same second has the same date
  [{ range: 'bytes=2-4', 'if-range': at(11) }, 200, null],
  [{ range: 'bytes=99-', 'if-range': '"x"' }, 200, null],
] as const)
  test(`${JSON.stringify(headers)} is ${status}`, t => {
    t.deepEqual(portionOf('GET', headers, body), { status, range })
  })

test('a HEAD has no range', t => {
  t.deepEqual(portionOf('HEAD', { range: 'bytes=2-4' }, body), { status: 200, range: null })
  t.deepEqual(portionOf('HEAD', { range: 'bytes=99-' }, body), { status: 200, range: null })
})

test('an empty body has no ranges', t => {
  t.deepEqual(portionOf('GET', { range: 'bytes=0-' }, { ...body, size: 0 }), { status: 416, range: null })
  t.deepEqual(portionOf('GET', {}, { ...body, size: 0 }), { status: 200, range: null })
})
