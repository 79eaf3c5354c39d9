import test from 'ava'
import { type Entry, Shelf } from '../../../activities/installs/shelf.ts'
import { blockBytes } from '../../../lib/bytes.ts'

const entry = (account: string, number: number, bytes = 1): Entry => {
  const key = number.toString(16).padStart(64, '0')
  return { account, app: null, key, digest: key, at: 1, bytes, usedAt: number }
}
const usedAt = (entries: readonly Entry[]) => entries.map(one => one.usedAt).sort((a, b) => a - b)

test('an archive counts as whole blocks of the disk, and their number is bounded, of an account and of a host', t => {
  const shelf = new Shelf({ bytes: 100 * blockBytes, entries: 8 }, 0.5)
  for (let number = 1; number <= 4; number++) shelf.add(entry('ana', number))
  t.deepEqual(shelf.makeRoom(), [])
  t.like(shelf.size(), { entries: 4, bytes: 4 * blockBytes })
  const fifth = entry('ana', 5, blockBytes + 1)
  shelf.add(fifth)
  t.deepEqual(usedAt(shelf.makeRoom()), [1], 'of an account')
  t.like(shelf.size(), { entries: 4, bytes: 5 * blockBytes })
  for (const number of [6, 7, 8, 9]) shelf.add(entry('bob', number))
  t.deepEqual(shelf.makeRoom(), [])
  shelf.add(entry('carl', 10))
  t.deepEqual(usedAt(shelf.makeRoom()), [2], 'of the host')
  shelf.add(entry('ana', 11, 48 * blockBytes))
  t.deepEqual(usedAt(shelf.makeRoom(fifth)), [3, 4], 'the bytes of an account, apart from what is spared')
  shelf.add(entry('ana', 5))
  t.like(shelf.size(), { entries: 7, bytes: 54 * blockBytes }, 'another one of its key takes its place')
  for (const one of shelf.entries()) shelf.forget(one)
  t.like(shelf.size(), { entries: 0, bytes: 0 })
})

test('an archive that another one of its key has replaced cannot be forgotten any more', t => {
  const shelf = new Shelf({ bytes: 100 * blockBytes, entries: 8 }, 0.5)
  const [older, later] = [entry('ana', 1), { ...entry('ana', 1), at: 2 }]
  shelf.add(older)
  t.is(shelf.add(later), older)
  shelf.forget(older)
  t.is(shelf.find('ana', later.key), later)
})

test('thousands of archives go in one pass', t => {
  const shelf = new Shelf({ bytes: 10_000 * blockBytes, entries: 100_000 }, 1)
  let looks = 0
  for (let number = 1; number <= 20_000; number++) {
    const one = entry('ana', number)
    shelf.add({
      ...one,
      get usedAt() {
        looks++
        return number
      },
    })
  }
  looks = 0
  t.is(shelf.makeRoom().length, 10_000)
  // A sort looks at two of them for each of its comparisons.
  t.true(looks < 20_000 * 2 * 16, String(looks))
})
