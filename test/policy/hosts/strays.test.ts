import test from 'ava'
import { currentNotes, decideStrays, type StrayNotes } from '../../../policy/hosts/strays.ts'

const hour = 3_600_000
const day = 24 * hour
const now = 100 * day
const ids = (count: number) => Array.from({ length: count }, (_, n) => `app-${n}`)
const notedAt = (since: number, count: number): StrayNotes => Object.fromEntries(ids(count).map(id => [id, { since }]))

test('a database that knows none of many applications changes nothing, regardless of earlier notes', t => {
  const nothing = { aside: [], remove: [], wrongDatabase: true }
  t.deepEqual(decideStrays(ids(4), 0, {}, now), nothing)
  t.deepEqual(decideStrays(ids(40), 0, notedAt(0, 40), now), nothing)
  t.deepEqual(decideStrays(ids(3), 0, {}, now).aside, ids(3), 'few may be all that a deletion left')
})

test('at most 3 strays, or a tenth of all, are quarantined within an hour', t => {
  t.deepEqual(decideStrays(ids(8), 2, {}, now).aside, ids(3))
  t.is(decideStrays(ids(50), 150, {}, now).aside.length, 20)
  t.deepEqual(decideStrays(ids(8), 2, notedAt(now - 1, 3), now).aside, [])
  t.deepEqual(decideStrays(ids(8), 2, notedAt(now - hour, 3), now).aside, ['app-3', 'app-4', 'app-5'])
})

test('quarantined strays are removed after 7 days, at most 3 or a tenth of all within an hour', t => {
  t.deepEqual(decideStrays(ids(5), 2, notedAt(now - 7 * day + 1, 5), now).remove, [])
  t.deepEqual(decideStrays(ids(5), 2, notedAt(now - 7 * day, 5), now).remove, ids(3))
  const removed = Object.fromEntries(['x', 'y', 'z'].map(id => [id, { since: 0, removed: now - 1 }]))
  t.deepEqual(decideStrays(ids(5), 2, { ...notedAt(0, 5), ...removed }, now).remove, [])
})

test('notes of known or missing applications are dropped, those of removals after an hour', t => {
  const notes = { known: { since: 1 }, stays: { since: 2 }, missing: { since: 3, removed: now - 1 } }
  t.deepEqual(currentNotes(notes, ['stays'], now), { stays: notes.stays, missing: notes.missing })
  t.deepEqual(currentNotes(notes, ['stays'], now + hour), { stays: notes.stays })
})
