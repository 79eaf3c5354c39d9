import test from 'ava'
import { OwnerPlaces } from '../../activities/owner-places.ts'

const forEver = new AbortController().signal

/** Whoever came in, in order. */
function arrivals(places: OwnerPlaces) {
  const inside: string[] = []
  const ways: (() => void)[] = []
  return {
    inside,
    leave: (n: number) => ways[n]!(),
    async ask(owner: string, signal = forEver) {
      const way = await places.enter(owner, signal)
      inside.push(owner)
      ways.push(way)
    },
  }
}

const settled = () => new Promise(resolve => setImmediate(resolve))

test('an account has its share, and all have the host’s', async t => {
  const { ask, inside, leave } = arrivals(new OwnerPlaces({ total: 4, perOwner: 2 }))
  for (const owner of ['a', 'a', 'a', 'a', 'b', 'c', 'b']) void ask(owner)
  await settled()
  t.deepEqual(inside, ['a', 'a', 'b', 'c'])
  leave(3)
  await settled()
  t.deepEqual(inside, ['a', 'a', 'b', 'c', 'b'], 'who holds least comes first')
  leave(0)
  await settled()
  t.deepEqual(inside.slice(5), ['a'])
})

test('who gives up takes no place', async t => {
  const places = new OwnerPlaces({ total: 1, perOwner: 1 })
  const { ask, inside, leave } = arrivals(places)
  const cancel = new AbortController()
  await ask('a')
  const given = ask('b', cancel.signal)
  void ask('c')
  cancel.abort(new Error('no longer wanted'))
  await t.throwsAsync(given, { message: 'no longer wanted' })
  await t.throwsAsync(ask('b', cancel.signal), { message: 'no longer wanted' })
  leave(0)
  await settled()
  t.deepEqual(inside, ['a', 'c'])
})
