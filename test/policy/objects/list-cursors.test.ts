import test from 'ava'
import {
  cursorSecret,
  type ListFilters,
  type ListPosition,
  listCursor,
  readListCursor,
} from '../../../policy/objects/list-cursors.ts'

const secret = cursorSecret('ab'.repeat(32))
const filters: ListFilters = { ownerId: '1'.repeat(18), buckets: ['public', 'private'], prefix: 'a/', delimiter: '/' }
const now = new Date('2026-01-01')

test('a cursor decodes to its position, for the same listing only', t => {
  const positions: ListPosition[] = [
    { key: 'a/é "x"', bucket: 'private' },
    { key: 'a/b/', bucket: null },
    { key: 'x'.repeat(1024), bucket: 'legacy' },
  ]
  for (const position of positions)
    t.deepEqual(readListCursor(secret, filters, listCursor(secret, filters, position, now), now), position)
  const cursor = listCursor(secret, filters, positions[0]!, now)
  const others: Partial<ListFilters>[] = [
    { ownerId: '2'.repeat(18) },
    { buckets: ['public'] },
    { prefix: 'a' },
    { delimiter: undefined },
  ]
  for (const other of others) t.is(readListCursor(secret, { ...filters, ...other }, cursor, now), undefined)
  t.is(readListCursor(cursorSecret('cd'.repeat(32)), filters, cursor, now), undefined)
})

test('a forged, old or malformed cursor is refused', t => {
  const cursor = listCursor(secret, filters, { key: 'a/b', bucket: 'public' }, now)
  for (let at = 0; at < cursor.length; at++) {
    const changed = `${cursor.slice(0, at)}${cursor[at] === 'x' ? 'y' : 'x'}${cursor.slice(at + 1)}`
    t.is(readListCursor(secret, filters, changed, now), undefined, changed)
  }
  for (const text of ['', 'x', '.', `${cursor} `, `${cursor}A`, 'x'.repeat(2049)])
    t.is(readListCursor(secret, filters, text, now), undefined)
  t.truthy(readListCursor(secret, filters, cursor, new Date(now.getTime() + 23 * 3_600_000)))
  t.is(readListCursor(secret, filters, cursor, new Date(now.getTime() + 25 * 3_600_000)), undefined)
})
