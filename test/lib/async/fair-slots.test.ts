import test from 'ava'
import { FairSlots } from '../../../lib/async/fair-slots.ts'

/** Callers, in the order in which they get their slots. */
function queue(slots: FairSlots) {
  const inside: string[] = []
  const ways = new Map<string, () => void>()
  return {
    inside,
    ask(...names: string[]) {
      for (const name of names)
        void slots.enter(name[0]!).then(leave => {
          inside.push(name)
          ways.set(name, leave!)
        })
      return settled()
    },
    leave(name: string) {
      ways.get(name)!()
      return settled()
    },
  }
}

const settled = () => new Promise(resolve => setImmediate(resolve))

test('subjects alternate, however many requests each has', async t => {
  const { ask, leave, inside } = queue(new FairSlots({ atOnce: 1 }))
  await ask('a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2')
  const turns = ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']
  for (const name of turns) await leave(name)
  t.deepEqual(inside, [...turns, 'a4'])
})

test('a subject never exceeds its max, even while other slots are free', async t => {
  const { ask, leave, inside } = queue(new FairSlots({ atOnce: 3, perSubject: 1 }))
  await ask('a1', 'a2', 'a3', 'b1', 'c1', 'd1')
  t.deepEqual(inside, ['a1', 'b1', 'c1'])
  await leave('b1')
  t.deepEqual(inside, ['a1', 'b1', 'c1', 'd1'])
  await leave('c1')
  await leave('a1')
  t.deepEqual(inside, ['a1', 'b1', 'c1', 'd1', 'a2'])
  await leave('a1')
  t.is(inside.length, 5, 'who leaves twice makes room once')
})

test('a caller that times out leaves the queue without taking a slot', async t => {
  const slots = new FairSlots({ atOnce: 1 })
  const leave = await slots.enter('a')
  t.is(await slots.enter('b', 10), null)
  t.is(await slots.enter('a', 10), null)
  const next = slots.enter('c', 60_000)
  leave!()
  t.truthy(await next)
})

test('a cancelled caller takes no slot', async t => {
  const slots = new FairSlots({ atOnce: 1 })
  const cancel = new AbortController()
  const leave = await slots.enterUntil('a', cancel.signal)
  const given = slots.enterUntil('b', cancel.signal)
  const next = slots.enterUntil('c', new AbortController().signal)
  cancel.abort(new Error('no longer wanted'))
  await t.throwsAsync(given, { message: 'no longer wanted' })
  await t.throwsAsync(slots.enterUntil('b', cancel.signal), { message: 'no longer wanted' })
  leave()
  t.truthy(await next)
})

test('repeated callers do not overtake one that waits', async t => {
  const { ask, leave, inside } = queue(new FairSlots({ atOnce: 2, perSubject: 1 }))
  await ask('b1', 'x1', 'b2', 'y1', 'z1')
  await leave('x1')
  await ask('x2')
  await leave('b1')
  await leave('y1')
  await ask('y2')
  t.deepEqual(inside.slice(0, 5), ['b1', 'x1', 'y1', 'b2', 'z1'])
})

test('a caller that gave up counts as new the next time', async t => {
  const slots = new FairSlots({ atOnce: 1 })
  const first = await slots.enter('b')
  const gaveUp = slots.enter('b', 10)
  const held = slots.enter('a')
  first!()
  const leave = await held
  t.is(await gaveUp, null)
  const [again, other] = [slots.enter('b'), slots.enter('c')]
  leave!()
  const second = await again
  t.truthy(second, 'before who came later')
  second!()
  t.truthy(await other)
})

test('a subject that may only use what others can spare leaves a slot for the next one', async t => {
  const { ask, leave, inside } = queue(new FairSlots({ atOnce: 6, perSubject: 'spare' }))
  await ask('a1', 'a2', 'a3', 'a4', 'a5')
  t.deepEqual(inside, ['a1', 'a2', 'a3'], 'half')
  await ask('b1', 'b2', 'b3')
  t.deepEqual(inside.slice(3), ['b1', 'b2'])
  await ask('c1', 'c2', 'd1')
  t.deepEqual(inside.slice(5), ['c1'])
  await leave('a1')
  t.deepEqual(inside.slice(6), ['d1'], 'who has none comes first')
  for (const name of ['a2', 'b1', 'b2', 'c1', 'd1']) await leave(name)
  t.is(new Set(inside).size, inside.length)
  t.true(inside.includes('a4'))
})

test('the only slot is spared for nobody', async t => {
  const { ask, leave, inside } = queue(new FairSlots({ atOnce: 1, perSubject: 'spare' }))
  await ask('a1', 'a2')
  await leave('a1')
  t.deepEqual(inside, ['a1', 'a2'])
})

test('a slot that is free is taken without waiting, and no other', async t => {
  const slots = new FairSlots({ atOnce: 2, perSubject: 1 })
  const release = slots.enterNow('a')!
  t.is(slots.enterNow('a'), null, 'its max')
  t.truthy(slots.enterNow('b'))
  t.is(slots.enterNow('c'), null, 'all are taken')
  const waiting = slots.enter('d')
  release()
  t.is(slots.enterNow('c'), null, 'it went to who waited')
  ;(await waiting)!()
  t.truthy(slots.enterNow('c'))
})
